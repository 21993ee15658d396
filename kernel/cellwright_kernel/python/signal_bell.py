"""SIGINT that Python has taken note of -> its handler runs, also when the main thread has just begun to wait.

Flows in: each signal's number, from Python's own handler in C, on a socket. Flows out: the same numbers, to the event loop
that had been told of them; and SIGURG to the main thread as long as SIGINT's handler has not run. Decided here: how long
that may take. Python's handler in C only leaves a mark, which the interpreter sees before its next instruction; what comes
after its last look and before a call such as `time.sleep` begins to wait is seen when that call comes back, and
nothing ends the wait. Any signal that comes during it does, and SIGURG says nothing to anybody.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from contextlib import suppress

_PATIENCE_S = 0.02
_MOST_RINGS = 10
"""Each after twice the time of the one before: 20 s in all. What holds the interpreter for so long is another matter."""
_MAIN = threading.main_thread().ident or 0


class SignalBell:
    """Rings for one signal, from another thread than the main one.

    Args:
        watch_loop: Runs in that thread; it is never held up.
        number: The signal whose handler is to be run.
    """

    def __init__(self, watch_loop: asyncio.AbstractEventLoop, number: signal.Signals) -> None:
        self._watch_loop = watch_loop
        self._number = number
        self._was_told = -1
        """The event loop's own descriptor, which wakes it when a signal comes just before it starts to wait."""
        self._heard = 0
        self._receiver, self._sender = socket.socketpair()
        for end in (self._receiver, self._sender):
            end.setblocking(False)
        signal.signal(signal.SIGURG, _nothing)
        watch_loop.call_soon_threadsafe(watch_loop.add_reader, self._receiver, self._take)

    # In the main thread.

    def hang(self) -> None:
        """Be told of signals from now on, besides whoever is told of them now; to be called again after others took it."""
        before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        if before not in {-1, self._sender.fileno()}:
            self._was_told = before

    def hear(self) -> None:
        """The handler runs."""
        self._heard += 1

    # In the other thread.

    def _take(self) -> None:
        numbers = self._receiver.recv(4096)
        passed_on = bytes(number for number in numbers if number != signal.SIGURG)
        if passed_on and self._was_told != -1:
            with suppress(OSError):  # it is full, or its loop is closed: nobody waits there
                os.write(self._was_told, passed_on)
        if self._number in passed_on:
            self._watch_loop.call_later(_PATIENCE_S, self._ring, self._heard, 1)

    def _ring(self, heard: int, times: int) -> None:
        if self._heard == heard:
            signal.pthread_kill(_MAIN, signal.SIGURG)
            if times < _MOST_RINGS:
                self._watch_loop.call_later(_PATIENCE_S * 2**times, self._ring, heard, times + 1)


def _nothing(_number: int, _frame: object) -> None:
    """The call that waits has been left, and that was all."""
