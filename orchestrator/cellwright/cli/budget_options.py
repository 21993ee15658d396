"""What a run by a model may spend, said the same way by `run`, `resume` and `fork`.

Flows in: the words after `--max-turns` and its like. Flows out: a `Budget`. Decided here: nothing; a run that goes on counts anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cellwright.budget import Budget


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The options, as they were given; absent: not given. A run that is taken up again counts from there."""

    max_turns: Annotated[int, typer.Option(min=1, help="Responses of the model; then it sums up.")] = 20
    max_cells: Annotated[int | None, typer.Option(min=1, help="Cells that it may execute.")] = None
    max_seconds: Annotated[float | None, typer.Option(min=1, help="Seconds that it may take.")] = None

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        return Budget(self.max_turns, self.max_cells, self.max_seconds)
