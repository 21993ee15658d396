"""Who can be asked, said the same way by `run`, `resume`, `fork` and `exec`.

Flows in: the words after `--answer` and `--approve`. Flows out: `People`. Decided here: that answers which were given are used before anybody
is asked, and that what has to be approved needs somebody who can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast, get_args

import typer

from cellwright.asking import Asking, Presets
from cellwright.cli.terminal import Terminal
from cellwright.errors import UsageError
from cellwright.people import People
from cellwright.policy import Rule
from cellwright_kernel.wire_people import ANSWER_CHARS

APPROVE_HELP = "What a person has to approve: `never` anything; `each` cell before it is executed; `effects`: what a cell is about to send out."


@dataclass(frozen=True, kw_only=True)
class PeopleOptions:
    """The options, as they were given; absent: not given."""

    answers: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="TEXT",
            help="Answer to the first question that is asked; may be repeated, for those that follow. Then whoever sits at the terminal is "
            "asked. The run keeps it, so it is no place for a secret.",
        ),
    ] = None
    approve: Annotated[str, typer.Option("--approve", metavar="RULE", help=APPROVE_HELP)] = "never"

    def people(self, terminal: Terminal | None) -> People:
        """Return who can be asked.

        Raises:
            UsageError: A rule is none, an answer is empty or too long, or nobody is there who could approve.
        """
        rule, answers = rule_from(self.approve), self.answers or []
        if any(not answer.strip() or len(answer) > ANSWER_CHARS for answer in answers):
            raise UsageError(
                f"An --answer has 1 to {ANSWER_CHARS:,} characters. Nothing was started. Give another one."
            )
        if rule != "never" and terminal is None:
            raise UsageError(
                f"--approve {rule} asks a person, and nobody can be asked here: standard input and standard error have to be a terminal. "
                "Nothing was started. Run it at a terminal, or have `cellwright serve` ask."
            )
        asking: Asking | None = Presets(answers, then=terminal) if answers else terminal
        return People(asking=asking, approver=terminal, approve=rule)


def rule_from(word: str) -> Rule:
    """Return the rule that a word names.

    Raises:
        UsageError: There is none of this name.
    """
    if word not in get_args(Rule):
        raise UsageError(
            f"--approve {word[:80]!r}: there is no such rule. Nothing was started. Write {' or '.join(get_args(Rule))}."
        )
    return cast("Rule", word)
