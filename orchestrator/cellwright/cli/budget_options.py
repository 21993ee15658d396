"""What a run by a model may spend and how often the same may happen, said the same way by `run`, `resume` and `fork`.

Flows in: the words after `--max-turns` and its like. Flows out: a `Budget`, a `Patience`. Decided here: how a patience is written; a run
that goes on counts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from cellwright.budget import TOLD_FROM, Budget
from cellwright.errors import UsageError
from cellwright.stuck import Patience

_USUAL: Final = Patience()


def patience_from(words: str) -> Patience:
    """Return what `3` or `3,5,8` means; raises UsageError where it means nothing."""
    parts = words.split(",")
    if not all(part.strip().isascii() and part.strip().isdecimal() and len(part) < 10 for part in parts):
        parts = []
    match [int(part) for part in parts]:
        case [nudge]:
            return Patience.of(nudge)
        case [nudge, push, stop]:
            return Patience(nudge, push, stop)
        case _:
            raise UsageError(
                f"--patience {words!r} is neither one number nor three. Nothing was started. Write 3, say, or 3,5,8."
            )


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The options, as they were given; absent: not given. A run that is taken up again counts from there."""

    max_turns: Annotated[int, typer.Option(min=1, help="Responses of the model; then it sums up.")] = 20
    max_cells: Annotated[int | None, typer.Option(min=1, help="Cells that it may execute.")] = None
    max_seconds: Annotated[float | None, typer.Option(min=1, help="Seconds that it may take.")] = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens of all its requests and responses. A request that could exceed them is not made; the summary's are kept "
            f"back. Of this and each other budget the model is told what is left when {TOLD_FROM:.0%} is spent.",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        typer.Option(
            metavar="DOLLARS",
            help="US dollars that these may cost, by a table of prices that you should check: docs/loop.md. Counted as tokens are.",
        ),
    ] = None
    patience: Annotated[
        str,
        typer.Option(
            metavar="N[,N,N]",
            help="How often the same may happen (the same cell with the same result, a screen that nothing changes, the same error) "
            "before the model is told; told to try something else or give up; and before the run ends as `stuck`. One number is the "
            f"first; the others are {_USUAL.push_after - _USUAL.nudge_after} and {_USUAL.stop_after - _USUAL.nudge_after} more.",
        ),
    ] = f"{_USUAL.nudge_after},{_USUAL.push_after},{_USUAL.stop_after}"

    @property
    def budget(self) -> Budget:
        """What may be spent; raises UsageError where that is nothing."""
        return Budget(
            self.max_turns,
            self.max_cells,
            self.max_seconds,
            self.max_tokens,
            self.max_cost,
        )

    @property
    def chosen_patience(self) -> Patience:
        """How often the same may happen; raises UsageError where that is not clear."""
        return patience_from(self.patience)
