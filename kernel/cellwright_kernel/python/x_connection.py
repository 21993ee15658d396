"""The process's one connection to its X display.

Flows in: the display's name. Flows out: an open Xlib `Display`, lent to one caller at a time.
Decided here: who may use the connection when (one lock), that no interrupt strikes in the middle of a request, what
happens after a fork and after the X server has gone, and that errors about windows which have just vanished are no errors.

python-xlib keeps half-sent requests and its locks in plain attributes: a KeyboardInterrupt inside it leaves a dead
lock behind or sends bytes twice. So an interrupt that comes while the connection is lent out is kept back and raised
when it is returned. Whoever borrows it must therefore return it soon: no wait longer than `MAX_LOAN_S`. Where a server
that was stopped, or hangs, keeps it longer, an interrupt hangs up: the wait ends, and the next use opens another connection.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from Xlib import X, error
from Xlib.display import Display

from cellwright_kernel.display_life import answers
from cellwright_kernel.hung_up import has_hung_up
from cellwright_kernel.python import xkb

MAX_LOAN_S = 1.0
"""An interrupt waits about this long at most, where the server answers; where it does not, until the next interrupt."""

_ANSWER_S = 5.0
"""The end of the wait for a server that says nothing to a new connection; 0.2 ms are usual."""


class DisplayLost(RuntimeError):
    """The X server does not answer, so there is no desktop to act on."""


class Connection:
    """Lends the process's one X connection.

    Safe to share between threads (one lock) and to inherit through a fork (the child opens its own at first use).
    """

    def __init__(self, name: str) -> None:
        """Remember the display's name, such as `:1`; the connection opens at its first use."""
        self.name = name
        self.keymap_changed = True
        """True when the server has announced another keyboard mapping since somebody set this to False."""
        self.messages: list[Any] = []
        """Client messages that arrived, oldest first; whoever waits for one empties it."""
        self.interrupted = False
        """True when an interrupt came during this loan; a loop that waits should stop waiting."""
        self.is_silent = False
        """True when the server did not answer when it was last used, or was not waited for any longer."""
        self._display: Display | None = None
        self._keymap_event = 0
        self._errors: list[error.XError] = []
        self._lock = threading.RLock()
        _connections.add(self)

    @contextmanager
    def use(self) -> Iterator[Display]:
        """Borrow the display; interrupts of the main thread are kept back until it is returned.

        Raises:
            DisplayLost: the server cannot be reached, or went away meanwhile.
            KeyboardInterrupt: one came meanwhile; raised after the display was returned.
        """
        with self._lock:
            self._require_answer()
            with _interrupts_kept_back(self):
                try:
                    display = self._open()
                    yield display
                    display.flush()
                except (error.ConnectionClosedError, error.DisplayError, ConnectionError) as gone:
                    self.close()
                    raise DisplayLost(
                        f"The X display {self.name} does not answer ({gone}). Usually its server was ended. Variables are "
                        "kept; windows are gone. Nothing on the desktop can be done until the session has a new one."
                    ) from None
        self._raise_errors()

    def close(self) -> None:
        """Close it until its next use; safe to call twice."""
        display, self._display = self._display, None
        if display is not None:
            with suppress(error.ConnectionClosedError, OSError):
                display.close()

    def read_events(self, display: Display, wait_s: float = 0.0) -> None:
        """Take in what the server has sent, waiting up to `wait_s` seconds for something to come."""
        if not display.pending_events() and wait_s > 0:
            select.select([display.fileno()], [], [], wait_s)
        for _ in range(display.pending_events()):
            event = display.next_event()
            if event.type == self._keymap_event:
                self.keymap_changed = True
            elif event.type == X.ClientMessage:
                self.messages.append(event)

    def hang_up(self) -> None:
        """End what waits for the server to answer; it finds the connection closed."""
        self.is_silent = True
        if self._display is not None:
            with suppress(OSError):
                self._display.display.socket.shutdown(socket.SHUT_RDWR)

    def wait_until(self, display: Display, fact: Callable[[], bool], limit_s: float) -> bool:
        """Ask for `fact` until it holds, the limit is over or an interrupt came. Returns whether it holds."""
        end = time.monotonic() + min(limit_s, MAX_LOAN_S)
        while not fact():
            left = end - time.monotonic()
            if left <= 0 or self.interrupted:
                return False
            self.read_events(display, min(left, 0.002))
        return True

    def _require_answer(self) -> None:
        """Before a connection is opened, see that the server answers, while an interrupt still ends the wait."""
        if self._display is not None and has_hung_up(self._display):
            self.close()
        if self._display is None:
            self.is_silent = True  # until it is known better: an interrupt may end the asking
            self.is_silent = not answers(self.name, _ANSWER_S)
            if self.is_silent:
                raise DisplayLost(
                    f"The X display {self.name} did not answer within {_ANSWER_S:g} s. Usually its server is stopped or "
                    "hangs; one that goes on so is started again after the cell. Variables are kept."
                )

    def _open(self) -> Display:
        if self._display is None:
            self._display = Display(self.name)
            self._display.set_error_handler(self._note_error)
            self._keymap_event = xkb.listen(self._display)
            self.keymap_changed = True
            self.messages.clear()
        return self._display

    def _note_error(self, what: error.XError, _request: Any) -> None:
        # A window may vanish between looking and asking; whoever asked sees that from the reply that is missing.
        if not isinstance(what, error.BadWindow | error.BadDrawable | error.BadMatch):
            self._errors.append(what)

    def _raise_errors(self) -> None:
        if self._errors:
            errors, self._errors = self._errors, []
            raise RuntimeError(f"The X display {self.name} refused a request: {errors[0]}")

    def _forget(self) -> None:
        # In a forked child: the socket is the parent's too, and the lock may be held by a thread that is not here.
        self._display, self._lock, self.interrupted = None, threading.RLock(), False


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def _forget_all() -> None:
    for connection in list(_connections):
        connection._forget()


os.register_at_fork(after_in_child=_forget_all)


@contextmanager
def _interrupts_kept_back(connection: Connection) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread is ever interrupted
        yield
        return
    came = False
    lent_at = time.monotonic()

    def keep(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        if came or time.monotonic() - lent_at > MAX_LOAN_S:
            connection.hang_up()
        came = connection.interrupted = True

    before = signal.getsignal(signal.SIGINT)
    if not callable(before):  # nobody listens: ignored, or the process ends
        yield
        return
    # Either this raises the interrupt before it changes anything, or from here on `keep` gets it: there is no gap.
    signal.signal(signal.SIGINT, keep)
    try:
        yield
    finally:
        connection.interrupted = False
        signal.signal(signal.SIGINT, before)
        if came:  # also where the loan failed, of having been hung up on, say: the interrupt is what was asked for
            try:
                before(signal.SIGINT, sys._getframe())
            except KeyboardInterrupt as interrupt:
                raise interrupt from None
