"""So many a second, as a value that is used up and grows again.

Flows in: a rate. Flows out: whether one more is within it. Decided here: what was not used is kept for some seconds, so that
a burst after a silence is no fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

BURST_S: Final = 10
"""So many seconds' worth may come at once after a silence."""


class Allowance:
    """So many a second, and those that were not used, up to `BURST_S` seconds' worth of them.

    Args:
        a_second: How many.
        clock: Seconds since whenever.
    """

    def __init__(self, a_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second = a_second
        self._most = max(1.0, a_second * BURST_S)
        self._clock = clock
        self._left = self._most
        self._at = clock()

    def take(self) -> float:
        """Use one up, and return 0; where none is left return how many seconds to wait for it."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._a_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._a_second
        self._left -= 1
        return 0.0
