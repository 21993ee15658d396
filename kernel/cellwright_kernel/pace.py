"""So many a second, as a value that is used up and grows again.

Flows in: a rate, what may come at once, what was used. Flows out: whether there is some left, or how long to wait for it. Decided
here: what was not used is kept up to a burst, so that many after a silence are no fault; and who learns only afterwards how much
it was may use more than there was, and waits longer for it. Both sides import this: it needs nothing but Python.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """So many a second, whatever they are.

    Args:
        a_second: How many.
        burst: So many may come at once after a silence; at least 1.
        clock: Seconds since whenever.
    """

    def __init__(self, a_second: float, *, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._a_second = a_second
        self._burst = burst
        self._clock = clock
        self._left = float(burst)
        self._at = clock()

    def wait_s(self) -> float:
        """Return 0 when there is one left, otherwise how many seconds to wait for it."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._a_second)
        self._at = now
        return 0.0 if self._left >= 1 else (1 - self._left) / self._a_second

    def spend(self, amount: float) -> None:
        """Note what was used, also if it is more than was left."""
        self._left -= amount

    def take(self) -> float:
        """Use one up, and return 0; where none is left return how many seconds to wait for it."""
        wait_s = self.wait_s()
        if not wait_s:
            self.spend(1)
        return wait_s
