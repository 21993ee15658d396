"""The clipboard thread's X connection: its atoms, its window, and its events.

Flows in: an open python-xlib `Display`. Flows out: events, handed on one by one. Decided here: that whoever waits for
one event still serves all the others meanwhile.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from Xlib import X
from Xlib.display import Display

TEXT_UTF8: Final = "text/plain;charset=utf-8"


class Link:
    """One connection, used by one thread.

    Args:
        display: The connection.
        wake_fd: What makes a wait end early, when it can be read.
        take: Is given each event.
    """

    def __init__(self, display: Display, wake_fd: int, take: Callable[[Any], None]) -> None:
        display.set_error_handler(lambda *_: None)  # a window of somebody else's may be gone before it has its text
        self.display = display
        root = display.screen().root
        self.window = root.create_window(0, 0, 1, 1, 0, X.CopyFromParent, event_mask=X.PropertyChangeMask)
        self.is_stopping = False
        self._wake_fd = wake_fd
        self._take = take
        self._atoms: dict[str, int] = {}

    def atom(self, name: str) -> int:
        """Return the server's number of a name."""
        if name not in self._atoms:
            self._atoms[name] = self.display.intern_atom(name)
        return self._atoms[name]

    def names(self, atoms: Iterable[int]) -> list[str]:
        """Return the names of numbers."""
        return [str(self.display.get_atom_name(atom)) for atom in atoms]

    def wait(self, fact: Callable[[], bool], limit_s: float) -> bool:
        """Hand on events until a fact holds, the time is over, or this is to stop; return whether it holds."""
        end = time.monotonic() + limit_s
        while not fact():
            left = end - time.monotonic()
            if left <= 0 or self.is_stopping:
                return False
            self.pump(left)
        return True

    def pump(self, limit_s: float) -> None:
        """Wait until the server has sent something, somebody wakes this, or the time is over; hand on what came."""
        self.display.flush()
        if not self.display.pending_events():
            ready = select.select([self.display.fileno(), self._wake_fd], [], [], limit_s)[0]
            if self._wake_fd in ready:
                os.read(self._wake_fd, 4096)
        while self.display.pending_events():
            self._take(self.display.next_event())
        self.display.flush()
