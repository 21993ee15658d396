"""The ladder by which a cell is ended, and which rung was used.

Flows in: a deadline, a clock, and what each rung does. Flows out: the highest rung that was climbed. Decided here: the
order of the rungs and the time between them; that an interrupt is repeated while it isn't obeyed, since code may catch
one; that asking for an interrupt only brings the deadline forward; that the deadline does not run while a person is waited for; that code which has stopped is left alone, though what
it said is still being read; and that the top of the ladder is an answer without the kernel's help.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from cellwright_kernel.wire import Rung

RUNGS: Final[tuple[tuple[float, Rung], ...]] = (
    (0.0, "interrupt"),
    (0.4, "interrupt"),
    (0.8, "interrupt"),
    (1.0, "kill_children"),
    (1.4, "interrupt"),
    (1.8, "interrupt"),
    (2.0, "kill_kernel"),
)
"""Seconds after the deadline, and what is done then. An interrupt after `kill_children` does not lower the rung."""
TOP_S: Final = 2.6
"""Seconds after the deadline when the cell is answered for, whether the kernel's end was seen or not."""
_EARLY_S: Final = 1.0
_HEIGHT: Final[dict[Rung, int]] = {"interrupt": 0, "kill_children": 1, "kill_kernel": 2, "replace_sandbox": 3}


class Clock(Protocol):
    """Time as a parameter."""

    def now(self) -> float:
        """Return seconds from some fixed moment."""

    async def until(self, moment: float, earlier: asyncio.Event) -> None:
        """Wait until a moment, or until the event is set if that is sooner."""


class SystemClock:
    """The real one, unmoved by changes of the date."""

    def now(self) -> float:
        """See `Clock.now`."""
        return time.monotonic()

    async def until(self, moment: float, earlier: asyncio.Event) -> None:
        """See `Clock.until`."""
        try:
            async with asyncio.timeout(moment - self.now()):
                await earlier.wait()
        except TimeoutError:
            return


class Ladder:
    """One cell's way to its end.

    Args:
        deadline_s: Seconds from now to the first rung.
        clock: Time.
    """

    def __init__(self, deadline_s: float, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._deadline = self._began + deadline_s
        self._asked_for_rung: Rung = "interrupt"
        self._moved = asyncio.Event()
        self._holds = 0
        self._held_at = 0.0
        self.asked = False
        """True when somebody asked for the end; False when the deadline brought it."""
        self.deadline_s = deadline_s
        self.rung: Rung | None = None
        """The highest rung that was used; None while the cell is left alone."""
        self.has_stopped = False
        """Set once the kernel has replied: no rung is used any more, unless somebody wants the kernel itself to end."""

    @property
    def past_s(self) -> float:
        """Seconds since the deadline; negative before it."""
        return self._clock.now() - self._deadline

    @property
    def is_early(self) -> bool:
        """True while so little time has passed that nothing follows from what has not happened yet."""
        return self._clock.now() - self._began < _EARLY_S

    def ask(self, rung: Rung = "interrupt") -> None:
        """Bring the deadline forward to now, and begin at a rung. Once the ladder is being climbed, nothing changes."""
        if self.rung is None and not self.asked:
            self._deadline = self._clock.now()
            self._asked_for_rung = rung
            self.asked = True
            self._moved.set()

    @property
    def is_climbed(self) -> bool:
        """True once the cell is being ended."""
        return self.asked or self.rung is not None

    def hold(self) -> None:
        """Have the deadline not run, until `release` was called as often."""
        if self._holds == 0:
            self._held_at = self._clock.now()
        self._holds += 1
        self._moved.set()

    def release(self) -> None:
        """Let the deadline run on; it is later by the time that it was held."""
        self._holds -= 1
        if self._holds == 0 and not self.is_climbed:
            self._deadline += self._clock.now() - self._held_at
            self._moved.set()

    async def climb(self, act: Callable[[Rung], Awaitable[None]]) -> None:
        """Wait for the deadline and do what each rung says; return at the top. Cancelled when the cell has ended.

        Args:
            act: Does a rung; what it raises ends the climbing.
        """
        await self._deadline_comes()
        never = asyncio.Event()
        start = next(offset for offset, rung in RUNGS if rung == self._asked_for_rung)
        for offset, rung in RUNGS:
            if offset < start:
                continue
            await self._clock.until(self._deadline + offset - start, never)
            if self.has_stopped and self._asked_for_rung != "kill_kernel":
                continue
            if self.rung is None or _HEIGHT[rung] > _HEIGHT[self.rung]:
                self.rung = rung
            await act(rung)
        await self._clock.until(self._deadline + TOP_S - start, never)

    async def _deadline_comes(self) -> None:
        while not self.asked:
            self._moved.clear()
            if self._holds:
                await self._moved.wait()  # whoever holds it releases it, at the cell's end at the latest
            elif self._clock.now() < self._deadline:
                await self._clock.until(self._deadline, self._moved)
            else:
                return
