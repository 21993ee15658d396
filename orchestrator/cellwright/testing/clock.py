"""A clock that goes only when it is told to.

Flows in: seconds. Flows out: moments, and whoever waits for one, woken in order. Decided here: that time is a parameter,
so that a test of a deadline takes no time.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class FakeClock:
    """Stands in wherever a clock is asked for: `now` where the moment is enough, the whole of it where somebody waits."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._order = count()
        self._waiting: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> float:
        """Return the moment, in seconds."""
        return self._now_s

    async def until(self, moment: float, earlier: asyncio.Event) -> None:
        """Wait until the clock has been moved on to a moment, or until the event is set if that is sooner."""
        if moment <= self._now_s or earlier.is_set():
            return
        come = asyncio.Event()
        heapq.heappush(self._waiting, (moment, next(self._order), come))
        either = [asyncio.ensure_future(event.wait()) for event in (come, earlier)]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in either:
                one.cancel()
            await asyncio.gather(*either, return_exceptions=True)

    async def advance(self, duration_s: float) -> None:
        """Move on, waking each who waits at its own moment; what it does then is done before the next one wakes."""
        until = self._now_s + duration_s
        await _settled()
        while self._waiting and self._waiting[0][0] <= until:
            moment, _, come = heapq.heappop(self._waiting)
            self._now_s = max(self._now_s, moment)
            come.set()
            await _settled()
        self._now_s = until


async def _settled() -> None:
    """Let everything that is ready run; a hundred rounds are more than any chain of callbacks here has."""
    for _ in range(100):
        await asyncio.sleep(0)
