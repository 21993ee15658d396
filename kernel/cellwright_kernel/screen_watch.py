"""Has the screen changed since the last screenshot? The X server says so; nobody compares pixels.

Flows in: the DAMAGE extension's events for the root window, which count for everything drawn on the screen. Flows out:
one fact, `changed`. Decided here: that in doubt it has changed: before the watch is up, when its connection is gone,
when something was drawn while it began anew, and when the server does not answer at once; and that "unchanged" is said
only after the server has answered something, since an event that it has not sent yet comes before that answer.

The server is asked to tell the first damage only (`NonEmpty`), and again after that was taken away, so at most one such
event waits, however much is drawn. What else it sends unasked (changes of the keyboard's layout) is read and dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
import time
from typing import Final

from Xlib import display as xlib
from Xlib.error import ConnectionClosedError, DisplayError, XError
from Xlib.ext import damage
from Xlib.protocol.request import GetInputFocus

_GONE: Final = (OSError, ConnectionClosedError)
_END_S: Final = 1.0
_ANSWER_S: Final = 0.05


class ScreenWatch:
    """A watch over one display, on a connection of its own."""

    def __init__(self) -> None:
        self._connection: xlib.Display | None = None
        self._damage = 0
        self._changed = True
        self._reader = -1
        self._using = threading.Lock()

    @property
    def changed(self) -> bool:
        """False only when nothing was drawn since `begin_anew`; costs one question to the server (0.1 ms)."""
        # held by `begin_anew` alone, which decides by itself: the loop never waits for a server that does not answer
        if self._using.acquire(blocking=False):
            try:
                self._take_events()
                if not self._changed:
                    self._ask()
            finally:
                self._using.release()
        return self._changed

    async def start(self, display: str) -> None:
        """Watch a display; where it cannot be watched, the screen counts as changed."""
        try:
            connection, self._damage = await asyncio.to_thread(_watched, display)
        except (*_GONE, DisplayError, XError, AttributeError):  # the last: a server without the extension
            return
        # a descriptor of our own: python-xlib closes its own where it notices the end, which may be in a thread
        self._reader = os.dup(connection.fileno())
        self._connection = connection
        asyncio.get_running_loop().add_reader(self._reader, self._read)

    def begin_anew(self) -> None:
        """Count changes from here on; call it in a thread, directly before the screenshot is taken.

        When it returns, everything drawn from then on will be told, or is in the screenshot.
        """
        with self._using:
            self._take_events()
            if self._connection is None or not self._changed:
                return
            with contextlib.suppress(*_GONE):
                self._connection.damage_subtract(self._damage)
                self._connection.sync()
                self._changed = False
                # one that came meanwhile may be older or newer than the subtraction: the next screenshot settles it
                self._take_events()

    def doubt(self) -> None:
        """Count the screen as changed: the screenshot was not taken after all."""
        self._changed = True

    def stop(self) -> None:
        """Give the connection back, once the server has ended; safe to call twice."""
        self._forget_reader()
        if self._using.acquire(timeout=_END_S):
            connection, self._connection = self._connection, None
            with contextlib.suppress(*_GONE):
                if connection is not None:
                    connection.close()
            self._using.release()
        self._changed = True

    def _read(self) -> None:
        if not self._using.acquire(blocking=False):
            return
        try:
            self._take_events()
        finally:
            self._using.release()
        if self._connection is None:
            self._forget_reader()

    def _ask(self) -> None:
        """Take what the server had still to send; where it does not answer at once, count the screen as changed."""
        assert self._connection is not None  # noqa: S101 - for the type checker; else it counts as changed
        end = time.monotonic() + _ANSWER_S
        try:
            question = GetInputFocus(display=self._connection.display, defer=1)
            self._connection.flush()
            while not self._changed and question._data is None:
                select.select([self._reader], [], [], max(0.0, end - time.monotonic()))
                self._take_events()
                if time.monotonic() > end:
                    self._changed = True
        except _GONE:
            self._connection, self._changed = None, True

    def _take_events(self) -> None:
        if self._connection is None:
            self._changed = True
            return
        try:
            for _ in range(self._connection.pending_events()):
                if self._connection.next_event().type == self._connection.extension_event.DamageNotify:
                    self._changed = True
        except _GONE:
            self._connection, self._changed = None, True

    def _forget_reader(self) -> None:
        if self._reader >= 0:
            asyncio.get_running_loop().remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1


def _watched(display: str) -> tuple[xlib.Display, int]:
    """Return a connection that gets an event when something is drawn, and the damage's id."""
    connection = xlib.Display(display)
    try:
        connection.damage_query_version()
        watched: int = connection.screen().root.damage_create(damage.DamageReportNonEmpty)
        connection.sync()
    except BaseException:
        connection.close()
        raise
    return connection, watched
