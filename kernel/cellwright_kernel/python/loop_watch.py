"""After an interrupt: is the event loop held, so that the interrupted cell can't be answered?

Flows in: that there was an interrupt, that the cell was answered. Flows out: SIGINT to the main thread while the loop is
held. Decided here: how long leftover code may hold it. What gives the loop back in time is left alone: it is somebody's
background work, and not what the interrupt was for.

It looks from another thread, since the one that is held can't; and it looks on for a while after the answer, because code
that the interrupted cell had put off begins then, and the kernel must answer the question whether it is sound.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
import time
from collections.abc import Callable

_LOOK_EVERY_S = 0.05
_PATIENCE_S = 0.1
"""The next interrupt of the deadline's ladder comes after 0.4 s."""
_PATIENCE_AFTER_S = 0.5
_WATCH_AFTER_S = 2.0
"""After the answer. The kernel has 2 s to show that it is sound."""
_MOST_CALLS = 100


class LoopWatch:
    """Watches one event loop from another one's thread.

    Args:
        loop: The one to be watched, of the main thread.
        own_loop: Runs in another thread.
        is_unfelt: Whether the last interrupt has met nobody, so that it is to be repeated at once.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, own_loop: asyncio.AbstractEventLoop, is_unfelt: Callable[[], bool]
    ) -> None:
        self._loop = loop
        self._own_loop = own_loop
        self._is_unfelt = is_unfelt
        self._round = 0
        """Counts what is watched: a look that belongs to an earlier round is the last of its kind."""
        self._is_on = False
        self._patience_s = _PATIENCE_S
        self._end_at = math.inf
        self._asked_at = 0.0
        self._has_turned = True
        self._calls = 0
        self._is_called = False

    # In the main thread.

    def begin(self, *, of_cell: bool) -> None:
        """Watch from now on; safe to call from a signal handler, and again.

        Args:
            of_cell: False when no cell has begun; one may wait for the loop.
        """
        self._patience_s = _PATIENCE_S
        self._end_at = math.inf if of_cell else time.monotonic() + _WATCH_AFTER_S
        if not self._is_on:
            self._is_on = True
            self._round += 1
            self._calls, self._has_turned = 0, True
            self._own_loop.call_soon_threadsafe(self._look, self._round)

    def let_go(self) -> None:
        """The cell was answered: from now on have more patience, and an end."""
        self._patience_s, self._end_at = _PATIENCE_AFTER_S, time.monotonic() + _WATCH_AFTER_S

    def end(self) -> None:
        """Another cell begins."""
        self._is_on = False
        self._round += 1

    def take_call(self) -> bool:
        """Whether the signal that is being handled is ours."""
        called, self._is_called = self._is_called, False
        return called

    def is_held(self) -> bool:
        """Whether what our signal was sent for is still so."""
        return self._is_on and not self._has_turned

    def _turn(self, of_round: int) -> None:
        if of_round == self._round:
            self._has_turned = True

    # In the other thread.

    def _look(self, of_round: int) -> None:
        now = time.monotonic()
        if of_round != self._round:
            return
        if self._calls >= _MOST_CALLS or now > self._end_at:
            self._is_on = False
            return
        if self._has_turned:
            self._has_turned, self._asked_at = False, now
            self._loop.call_soon_threadsafe(self._turn, of_round)
        if self._is_unfelt() or now - self._asked_at >= self._patience_s:
            self._calls += 1
            self._is_called = True
            signal.pthread_kill(_MAIN, signal.SIGINT)
        self._own_loop.call_later(_LOOK_EVERY_S, self._look, of_round)


_MAIN = threading.main_thread().ident or 0
