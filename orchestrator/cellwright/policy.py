"""A cell and the rules -> a decision.

Flows in: which cells have to be approved; a cell. Flows out: whether it may be executed, or a person is to be asked first, with the rule
that said so. Decided here: what each rule means. That a person's answer is waited for, and how, stands in `approval.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

Rule = Literal["never", "each"]
"""Which cells a person has to approve."""


@dataclass(frozen=True)
class Decision:
    """What is to be done with a cell."""

    kind: Literal["allow", "ask"]
    rule: str
    """Why, as a sentence."""


def decide(rule: Rule) -> Decision:
    """Return what is to be done with a cell."""
    match rule:
        case "never":
            return Decision("allow", "No cell has to be approved.")
        case "each":
            return Decision("ask", "Each cell has to be approved (--approve each).")
        case _:
            assert_never(rule)
