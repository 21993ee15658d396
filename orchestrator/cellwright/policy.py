"""A cell and the rules -> a decision.

Flows in: which cells have to be approved; a cell. Flows out: whether it may be executed, or a person is to be asked first, with the rule
that said so. Decided here: what each rule means. That a person's answer is waited for, and how, stands in `approval.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

Rule = Literal["never", "each", "effects"]
"""Which cells a person has to approve."""


@dataclass(frozen=True)
class Decision:
    """What is to be done with a cell."""

    kind: Literal["allow", "ask"]
    rule: str
    """Why, as a sentence."""


def decide(rule: Rule) -> Decision:
    """Return what is to be done with a cell that is about to be posted."""
    match rule:
        case "never":
            return Decision("allow", "No cell has to be approved.")
        case "each":
            return Decision("ask", "Each cell has to be approved (--approve each).")
        case "effects":
            return Decision("allow", "What a cell sends is asked about when it is about to leave.")
        case _:
            assert_never(rule)


def decide_effect(rule: Rule) -> Decision:
    """Return what is to be done with what is about to leave the sandbox and may change something."""
    if rule == "effects":
        return Decision("ask", "What may change something outside has to be approved (--approve effects).")
    return Decision("allow", "Nothing that leaves has to be approved.")
