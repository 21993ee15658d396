"""One row of the benchmark's table: what is measured, ours, and its baseline in the same run.

Flows in: figures. Flows out: a value that a table or JSON shows. Decided here: that a row names its baseline, and what
stands in it where the baseline could not be measured here: nothing.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Unit = Literal["ms", "s", "MB", "kB", "cells/s", "requests", "tokens"]


class Row(BaseModel):
    """One row."""

    model_config = ConfigDict(frozen=True)

    what: str
    ours: float
    baseline: float | None
    """Absent: could not be measured here; `stock` says why."""
    unit: Unit
    stock: str
    """What the baseline is."""
    ratio_of_turns: float | None = None
    """The median of the ratios of each turn, where both were measured in turns."""

    @property
    def ratio(self) -> float | None:
        """`ratio_of_turns`, or else `ours / baseline`; less is better but for `cells/s`."""
        if self.ratio_of_turns is not None:
            return self.ratio_of_turns
        return round(self.ours / self.baseline, 2) if self.baseline else None
