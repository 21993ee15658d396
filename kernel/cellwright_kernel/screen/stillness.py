"""Has the screen settled? The X server tells what is drawn, and the browser what is still to come.

Flows in: an open X connection, the browser's pages, a limit. Flows out: `Settled`, which says why the wait ended.
Decided here: what counts as still: nothing was drawn for 70 ms, or for half as long again as between the last drawings
where a loaded machine draws slowly; and after that every visible page has painted and does nothing that ends by itself.
A caret that blinks twice a second leaves gaps that are long enough. The server tells the box around all that was drawn,
when it grows, and begins anew every 10 ms: a page that draws all the time costs few events.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from Xlib.display import Display
from Xlib.error import ConnectionClosedError
from Xlib.ext import damage

from cellwright_kernel.boxes import Box, around
from cellwright_kernel.screen.pages import Pages

_QUIET_S: Final = 0.07
_MOST_QUIET_S: Final = 0.25
_GAPS: Final = 5
_RHYTHM_S: Final = 0.4
"""Drawings further apart are no animation: a caret blinks every half second."""
_ASK_AFTER_S: Final = 0.02
"""A page that draws 60 frames a second is not asked between two of them."""
_ASK_AGAIN_S: Final = 0.03
_UNRESPONSIVE_S: Final = 0.9
"""So that who waits for a second is told of it."""
_SILENT_S: Final = 0.4
"""When less time than that is left, and a page does not answer for so long, that is told."""
_SILENT: Final = ("a page does not answer",)
_TOLD_S: Final = 0.2
_LOOK_EVERY_S: Final = 0.01

Reason = Literal["still", "unresponsive", "timeout"]


@dataclass(frozen=True)
class Settled:
    """Why `screen.settle` returned; true when the screen is still."""

    reason: Reason
    """`still`: nothing is drawn and no page has anything under way. `unresponsive`: nothing was drawn for 0.9 s, but
    a page does not answer: it computes, or shows a dialog. `timeout`: neither came within the time."""
    waited_s: float
    busy: tuple[str, ...] = ()
    """What a page was still doing, such as `1 request`."""
    drawn: Box | None = None
    """Left, top, width, height of what was drawn during the wait; None when nothing was."""

    @property
    def still(self) -> bool:
        """Whether the screen is still."""
        return self.reason == "still"

    def __bool__(self) -> bool:
        return self.still

    def __await__(self) -> Generator[None, None, Settled]:
        """So that `await screen.settle()` is right as well."""
        return self
        yield


async def settle(display: Display, pages: Pages | None, limit_s: float) -> Settled:
    """Wait until the screen is still, but no longer than `limit_s` seconds.

    Args:
        display: A connection that nobody else uses meanwhile.
        pages: The browser's; absent where there is none.
        limit_s: The end of the wait.

    Raises:
        ConnectionError: the display has gone.
    """
    began = time.monotonic()
    with _watched(display) as drawing:
        reason, busy = await _ended(drawing, pages, began + limit_s)
    return Settled(reason, round(time.monotonic() - began, 3), busy, drawing.box)


async def _ended(drawing: _Drawing, pages: Pages | None, end: float) -> tuple[Reason, tuple[str, ...]]:
    busy: tuple[str, ...] = ()
    ask_at = 0.0
    while True:
        if await _is_over(max(ask_at, drawing.last + _ASK_AFTER_S), end):
            return "timeout", busy or await _loading(pages)
        if time.monotonic() < drawing.last + _ASK_AFTER_S:
            continue
        outcome, found = await _asked(drawing, pages, end)
        busy = busy if found is None else found
        if outcome in ("still", "unresponsive"):
            return outcome, busy
        ask_at = time.monotonic() + _ASK_AGAIN_S if found else 0.0


async def _asked(drawing: _Drawing, pages: Pages | None, end: float) -> tuple[Reason | None, tuple[str, ...] | None]:
    """Ask the pages what they do, while nothing is drawn; no reason when something was, or they do something.

    What they do is None where they have not answered: what is known of them stays what it was.
    """
    drawn_before, quiet_s = drawing.last, drawing.quiet_s
    asking = asyncio.ensure_future(pages.busy() if pages is not None else _nothing())
    asked_at = time.monotonic()
    give_up = asked_at + _UNRESPONSIVE_S
    try:
        while drawing.last == drawn_before and (now := time.monotonic()) < end:
            if asking.done() and now >= drawn_before + quiet_s:
                busy = asking.result()
                return (None if busy else "still"), busy
            if now >= give_up:
                return "unresponsive", _SILENT
            until = drawn_before + quiet_s if asking.done() or now < drawn_before + quiet_s else give_up
            waits: set[asyncio.Future[Any]] = {drawing.next()} if asking.done() else {drawing.next(), asking}
            await asyncio.wait(waits, timeout=min(until, end) - now, return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return None, asking.result()
        return None, _SILENT if (now := time.monotonic()) >= end and now - asked_at >= _SILENT_S else None
    finally:
        asking.cancel()
        await asyncio.wait({asking})


async def _loading(pages: Pages | None) -> tuple[str, ...]:
    """What only Chromium knows: the tab of a page that waits for a server turns all the time, so that the page is never asked."""
    if pages is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_S):
                return await pages.loading()
    return ()


async def _nothing() -> tuple[str, ...]:
    return ()


async def _is_over(moment: float, end: float) -> bool:
    """Wait for a moment; whether the end came first."""
    await asyncio.sleep(max(0.0, min(moment, end) - time.monotonic()))
    return time.monotonic() >= end


@contextmanager
def _watched(display: Display) -> Iterator[_Drawing]:
    drawing = _Drawing(display)
    try:
        yield drawing
    finally:
        drawing.close()


class _Drawing:
    """What is drawn on a display, from now on.

    Raises:
        ConnectionError: the display has gone.
    """

    def __init__(self, display: Display) -> None:
        self._display = display
        self._loop = asyncio.get_running_loop()
        self._again: asyncio.TimerHandle | None = None
        self._next: asyncio.Future[None] = self._loop.create_future()
        self._lost = False
        self.box: Box | None = None
        self.last = time.monotonic()
        """When something was last drawn, as far as it was seen; at first, when the watch began."""
        self._gaps: deque[float] = deque(maxlen=_GAPS)
        display.damage_query_version()
        self._damage = display.screen().root.damage_create(damage.DamageReportBoundingBox)
        display.damage_subtract(self._damage)  # a new one begins with the whole screen
        display.sync()
        for _ in range(display.pending_events()):
            display.next_event()
        self._fd = display.fileno()
        self._loop.add_reader(self._fd, self._read)

    @property
    def quiet_s(self) -> float:
        """How long nothing must be drawn for the screen to be still."""
        return max(_QUIET_S, min(_MOST_QUIET_S, 1.5 * max(self._gaps, default=0.0)))

    def next(self) -> asyncio.Future[None]:
        """Done when something is drawn after this call.

        Raises:
            ConnectionError: the display has gone.
        """
        if self._lost:
            raise ConnectionError("The X display has gone.")
        if self._next.done():
            self._next = self._loop.create_future()
        return self._next

    def close(self) -> None:
        """Watch no longer."""
        self._loop.remove_reader(self._fd)
        if self._again is not None:
            self._again.cancel()
        if not self._lost:
            with contextlib.suppress(OSError, ConnectionClosedError):
                self._display.damage_destroy(self._damage)
                self._display.sync()
                for _ in range(self._display.pending_events()):
                    self._display.next_event()

    def _read(self) -> None:
        try:
            for _ in range(self._display.pending_events()):
                event = self._display.next_event()
                if event.type == self._display.extension_event.DamageNotify:
                    self._drawn(event.area)
        except (OSError, ConnectionClosedError):
            self._lose()

    def _drawn(self, area: object) -> None:
        left, top, width, height = (int(getattr(area, side)) for side in ("x", "y", "width", "height"))
        now = time.monotonic()
        if self.box is not None and now - self.last < _RHYTHM_S:
            self._gaps.append(now - self.last)
        self.last = now
        box = left, top, width, height
        self.box = box if self.box is None else around((self.box, box))
        if not self._next.done():
            self._next.set_result(None)
        if self._again is None:
            self._again = self._loop.call_later(_LOOK_EVERY_S, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        try:
            self._display.damage_subtract(self._damage)
            self._display.flush()
            self._read()  # what the write has read meanwhile wakes nobody
        except (OSError, ConnectionClosedError):
            self._lose()

    def _lose(self) -> None:
        self._lost = True
        self._loop.remove_reader(self._fd)
        if not self._next.done():
            self._next.set_result(None)
