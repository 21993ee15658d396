"""How many requests after a silence are no fault.

Flows in: a rate. Flows out: a pace of so many requests. Decided here: what was not used is kept for some seconds.
"""

from __future__ import annotations

from typing import Final

from cellwright_kernel.pace import Pace

BURST_S: Final = 10
"""So many seconds' worth may come at once after a silence."""


def request_pace(a_second: float) -> Pace:
    """Return a pace of so many a second, over some seconds."""
    return Pace(a_second, burst=max(1.0, a_second * BURST_S))
