"""A clock that goes only when it is told to.

Flows in: seconds. Flows out: moments, and sleepers woken in order. Decided here: that time is a parameter, so that a
test of a deadline takes no time.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Stands in wherever a clock with `now()` and `sleep()` is asked for."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """Return the moment, in seconds."""
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        """Sleep until the clock has been moved on by this much."""
        if duration_s <= 0:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + duration_s, next(self._order), woken))
        await woken

    async def advance(self, duration_s: float) -> None:
        """Move on, waking each sleeper at its own moment; what it does then is done before the next one wakes."""
        until = self._now_s + duration_s
        while self._sleepers and self._sleepers[0][0] <= until:
            self._now_s, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await _settled()
        self._now_s = until
        await _settled()


async def _settled() -> None:
    """Let everything that is ready run; a hundred rounds are more than any chain of callbacks here has."""
    for _ in range(100):
        await asyncio.sleep(0)
