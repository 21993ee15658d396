"""Who can be asked, said the same way by `run`, `resume`, `fork` and `exec`.

Flows in: the words after `--answer` and `--approve`. Flows out: `People`. Decided here: that answers which were given are used before anybody
is asked, and that what has to be approved needs somebody who can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast, get_args

import typer

from cellwright.asking import Asker, Presets
from cellwright.cli.terminal import Terminal
from cellwright.errors import UsageError
from cellwright.people import People
from cellwright.policy import Rule
from cellwright.record import Run
from cellwright.record.records import ApprovalDecided
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
    approve: Annotated[
        str | None,
        typer.Option(
            "--approve",
            metavar="RULE",
            help=f"{APPROVE_HELP} Default: `never`; of a run that goes on, its own.",
            show_default=False,
        ),
    ] = None

    def people(self, terminal: Terminal | None, recorded: Run | None = None) -> People:
        """Return who can be asked.

        Args:
            terminal: At which somebody sits; absent: nobody does.
            recorded: The run that goes on; absent: a new one begins.

        Raises:
            UsageError: A rule is none, an answer is empty or too long, or nobody is there who could approve.
        """
        rule = _rule_of(recorded) if self.approve is None else rule_from(self.approve)
        answers = self.answers or []
        if any(not answer.strip() or len(answer) > ANSWER_CHARS for answer in answers):
            raise UsageError(
                f"An --answer has 1 to {ANSWER_CHARS:,} characters. Nothing was started. Give another one."
            )
        if rule != "never" and terminal is None and self.approve is None:
            raise UsageError(
                f"What this run did was approved by a person (--approve {rule}), and nobody can be asked here: standard input and standard "
                "error have to be a terminal. Nothing was started. Go on at a terminal, or say --approve never."
            )
        if rule != "never" and terminal is None:
            raise UsageError(
                f"--approve {rule} asks a person, and nobody can be asked here: standard input and standard error have to be a terminal. "
                "Nothing was started. Run it at a terminal, or have `cellwright serve` ask."
            )
        asking: Asker | None = Presets(answers, then=terminal) if answers else terminal
        return People(asking=asking, approver=terminal, approve=rule)


def _rule_of(recorded: Run | None) -> Rule:
    """Return what a run's record says that a person had to approve."""
    decided = [record for record in recorded.records if isinstance(record, ApprovalDecided)] if recorded else []
    if any(record.place is None for record in decided):
        return "each"
    return "effects" if decided else "never"


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
