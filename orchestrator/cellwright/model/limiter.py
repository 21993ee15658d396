"""One gate to each model server, for all runs of a process.

Flows in: everybody who is about to ask, and when a request has left. Flows out: their turn, in the order in which they
came. Decided here: that requests are spaced evenly, a little wider than asked for, because what goes evenly here need
not arrive so; that the next one waits until the last has really left, which a busy event loop can put off; and that
after a server has said how long to wait, nobody asks it before, and not all at once then.

A plain lock and short waits instead of an event loop's own means: runs may be in several loops, in several threads.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final

MARGIN: Final = 1.05
"""How much wider than asked for: at 10 a second, what is 50 ms late on its way does not make eleven of it."""
_SPREAD: Final = 0.25
"""Part of a wait that was asked for, over which those who waited for it are spread."""
_LEAST_S: Final = 0.002
_UNSENT_S: Final = 2.0
"""Seconds that a request which had its turn is waited for to leave: by then it is on its way, or its connection is not made."""


class Limiter:
    """The gate to one server."""

    def __init__(
        self,
        per_second: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Open it.

        Args:
            per_second: Requests a second; absent: as many as come.
            clock: Returns seconds.
            sleep: Waits so many seconds.
            chance: Returns a number from 0 to 1.
        """
        self._per_second: float | None = None
        self._spacing_s = 0.0
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._lock = threading.Lock()
        self._queue: deque[Turn] = deque()
        self._free_at = 0.0
        self._paused_until = 0.0
        self._spread_s = 0.0
        self._unsent: Turn | None = None
        self.allow(per_second)

    def allow(self, per_second: float | None) -> None:
        """Let through no more than that from now on; what was allowed before holds where it is less."""
        if per_second is not None:
            with self._lock:
                self._per_second = min(per_second, self._per_second or per_second)
                self._spacing_s = MARGIN / self._per_second

    def pause(self, wait_s: float) -> None:
        """Let nobody through for so long: the server said so."""
        with self._lock:
            until = self._clock() + wait_s
            if until > self._paused_until:
                self._paused_until, self._spread_s = until, wait_s * _SPREAD

    async def turn(self) -> Turn:
        """Wait for one's turn."""
        began, mine = self._clock(), Turn(self)
        with self._lock:
            self._queue.append(mine)
        try:
            await self._pass_pause()
            while (wait_s := self._left(mine)) > 0:
                await self._sleep(wait_s)
        except BaseException:
            with self._lock:
                if mine in self._queue:
                    self._queue.remove(mine)
            raise
        mine.waited_s = self._clock() - began
        return mine

    def left(self, turn: Turn) -> None:
        """Take note that a request has left, or never will."""
        with self._lock:
            if self._unsent is turn and self._per_second is not None:
                self._free_at = max(self._free_at, self._clock() + 1 / self._per_second)
                self._unsent = None

    async def _pass_pause(self) -> None:
        while (left_s := self._paused_until - self._clock()) > 0:
            await self._sleep(left_s + self._chance() * self._spread_s)

    def _left(self, mine: Turn) -> float:
        """Take the turn and return 0, or return how long to wait before asking again."""
        with self._lock:
            now = self._clock()
            free_at = max(self._free_at, self._paused_until)
            place = self._queue.index(mine) if self._spacing_s else 0
            is_unsent = self._unsent is not None and now < self._free_at + _UNSENT_S
            if place == 0 and now >= free_at and not is_unsent:
                self._queue.remove(mine)
                self._free_at = now + self._spacing_s
                self._unsent = mine if self._spacing_s else None
                return 0.0
            return max(_LEAST_S, free_at - now + place * self._spacing_s)


class Turn:
    """The right to make one request; it ends when the request has left."""

    def __init__(self, limiter: Limiter) -> None:
        self.waited_s = 0.0
        """How long it was waited for."""
        self._limiter = limiter

    def sent(self) -> None:
        """Say that the request has left, or never will; safe to say twice."""
        self._limiter.left(self)


current: Final[ContextVar[Turn | None]] = ContextVar("current", default=None)
"""The turn that the request at hand is made in."""


_limiters: Final[dict[str, Limiter]] = {}
_lock: Final = threading.Lock()


def limiter_of(base_url: str, per_second: float | None = None) -> Limiter:
    """Return the gate to a server, the same for everybody in this process.

    Args:
        base_url: Its address.
        per_second: As with `Limiter.allow`.
    """
    with _lock:
        limiter = _limiters.setdefault(base_url.rstrip("/"), Limiter())
    limiter.allow(per_second)
    return limiter
