"""Pictures of the screen, for whoever has a way to the display.

Flows in: a way to borrow an X connection. Flows out: PIL images, and strips. Decided here: that the memory shared with the X server
is kept from one picture to the next for as long as the connection is the same one; and what a process uses that has no
connection of its own yet.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

from PIL import Image
from Xlib.display import Display
from Xlib.error import ConnectionClosedError, DisplayError, XError

from cellwright_kernel.hung_up import has_hung_up
from cellwright_kernel.screen.grab import Grabber
from cellwright_kernel.screen.strips import Strips

_END_S: Final = 1.0


class Lender(Protocol):
    """Lends a connection to one user at a time."""

    def use(self) -> AbstractContextManager[Display]:
        """Borrow it for the block."""


class Pictures:
    """Takes pictures of one display.

    Args:
        lender: Lends the connection.
    """

    def __init__(self, lender: Lender) -> None:
        self._lender = lender
        self._grabber: Grabber | None = None
        self._of: Display | None = None
        self.keeps_last = False
        """Whether pictures of the whole screen are kept, for who compares; that takes 1 ms each."""
        self.last: Image.Image | None = None
        """The last picture of the whole screen, if they are kept."""

    def take(self, region: Sequence[float] | None = None) -> Image.Image:
        """Return a picture of the whole screen, or of `region` = (left, top, width, height).

        Raises:
            ValueError: the region is not within the screen.
            Exception: what the lender raises when the display does not answer.
        """
        with self._grabbing() as grabber:
            picture = grabber.grab(region)
        if region is None and self.keeps_last:
            self.last = picture.copy()  # the caller may draw on its own
        return picture

    @contextmanager
    def strips(self) -> Iterator[Strips]:
        """Take the whole screen for the block, a few rows at a time, which costs less; nobody else takes one meanwhile.

        Raises:
            Exception: what the lender raises when the display does not answer.
        """
        with self._grabbing() as grabber:
            yield grabber.strips()

    @contextmanager
    def _grabbing(self) -> Iterator[Grabber]:
        with self._lender.use() as display:
            if self._grabber is None or self._of is not display:
                self._forget()
                self._of, self._grabber = display, Grabber(display)
            yield self._grabber

    def _forget(self) -> None:
        if self._grabber is not None:
            self._grabber.close()


class OwnConnection:
    """A connection that is opened at its first use, and again when it was lost, or in a process that was forked.

    Args:
        name: The display's, such as `:1`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._display: Display | None = None
        self._using = threading.Lock()
        self._pid = os.getpid()

    @contextmanager
    def use(self) -> Iterator[Display]:
        """Borrow it; whoever else wants it waits.

        Raises:
            ConnectionError: the display does not answer.
        """
        if self._pid != os.getpid():  # after a fork: the socket is the parent's too, the lock may be a thread's there
            self._display, self._using, self._pid = None, threading.Lock(), os.getpid()
        with self._using:
            try:
                if self._display is not None and has_hung_up(self._display):
                    self._drop()
                if self._display is None:
                    self._display = Display(self._name)
                yield self._display
            except (ConnectionClosedError, DisplayError, ConnectionError, XError) as gone:
                self._drop()
                raise ConnectionError(f"The X display {self._name} does not answer ({gone}).") from None

    def close(self) -> None:
        """Give it back, unless whoever uses it never comes back from a server that says nothing; safe to call twice."""
        if self._using.acquire(timeout=_END_S):
            try:
                self._drop()
            finally:
                self._using.release()

    def _drop(self) -> None:
        display, self._display = self._display, None
        if display is not None:
            try:
                display.close()
            except (ConnectionClosedError, OSError):
                return
