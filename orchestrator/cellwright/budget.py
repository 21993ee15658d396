"""How much a run by a model may spend: turns, cells, seconds. Asked before the act, never after.

Flows in: a `Budget`, and each turn and cell as it begins. Flows out: why the next one may not begin, as half a sentence.
Decided here: what counts. The response that sums up when the budget is spent isn't a turn of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cellwright.counted import counted
from cellwright.errors import UsageError

Clock = Callable[[], float]
"""Returns seconds, from any beginning."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend."""

    turns: int = 20
    """Responses of the model."""
    cells: int | None = None
    """Absent: as many as the turns ask for."""
    seconds: float | None = None
    """By the clock, from the first request; absent: no end but that of the turns."""

    def __post_init__(self) -> None:
        for name, value in (("turns", self.turns), ("cells", self.cells), ("seconds", self.seconds)):
            if value is not None and value <= 0:
                raise UsageError(f"A budget of {value} {name} allows nothing. Nothing was started. Give more than 0.")


class Meter:
    """What a run has spent of its budget."""

    def __init__(self, budget: Budget, clock: Clock = time.monotonic) -> None:
        self.budget = budget
        self.turns = 0
        """Begun so far."""
        self.cells = 0
        """Begun so far."""
        self._clock = clock
        self._began = clock()

    @property
    def seconds_left(self) -> float | None:
        """Seconds until it is spent, at least 0; absent when they aren't counted."""
        if self.budget.seconds is None:
            return None
        return max(0.0, self.budget.seconds - (self._clock() - self._began))

    def take_turn(self) -> str | None:
        """Count a turn that is about to begin; or return why it may not."""
        if self.turns >= self.budget.turns:
            return counted(self.budget.turns, "turn")
        why = self._time_is_up()
        self.turns += why is None
        return why

    def take_cell(self) -> str | None:
        """Count a cell that is about to begin; or return why it may not."""
        if self.budget.cells is not None and self.cells >= self.budget.cells:
            return counted(self.budget.cells, "cell")
        why = self._time_is_up()
        self.cells += why is None
        return why

    def _time_is_up(self) -> str | None:
        if self.budget.seconds is None or self.seconds_left:
            return None
        return f"{self.budget.seconds:g} second{'' if self.budget.seconds == 1 else 's'}"
