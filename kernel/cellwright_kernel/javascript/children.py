"""What cells' child processes write straight to a descriptor, past Node.

Flows in: bytes from pipes; which cell runs. Flows out: texts, each under its cell. Decided here: a cell whose children inherit
its output gives them pipes of its own, so that what is left running afterwards is known by them; how much a cell's
children may say; and that they are read slowly once it has ended (`late_pace.py`): a forgotten process must not stand before
what the next cell says. What comes through Node's own descriptors belongs to the cell that was posted last.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
from collections.abc import Callable
from typing import Final

from cellwright_kernel.late_pace import TELL_EVERY_S, late_pace
from cellwright_kernel.python.origin import LATE_BYTES, ROOM_BYTES
from cellwright_kernel.python.overflow import Overflow

LATEST: Final = 0
"""Stands for the serial number of whichever cell was posted last."""
_NAMES: Final = ("stdout", "stderr")
_READ_BYTES: Final = 256 * 1024
_READS_A_TURN: Final = 8
"""A pipe holds 64 KiB: one read takes what a child has left; one that writes without end must not hold up what Node says."""
_PAUSE_S: Final = 0.1

Say = Callable[[int, str, str, int], None]
"""Takes a cell's serial number, the stream, a text, and how many characters are missing before it."""


class _Teller:
    """One cell, as the sender of what its children write."""

    def __init__(self, serial: int) -> None:
        self.serial = serial
        self.room = ROOM_BYTES
        self.overflow: Overflow | None = None
        self.is_over = False

    def end(self) -> None:
        self.is_over = True
        self.room = min(self.room, LATE_BYTES)


class _Pipe:
    """The reading end of a pipe; without a teller it is Node's own output."""

    def __init__(self, fd: int, name: str, teller: _Teller | None) -> None:
        self.fd = fd
        self.name = name
        self.teller = teller
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")


class ChildPipes:
    """All pipes on which children write. Used within one event loop.

    Args:
        say: Takes what they wrote.
        on_ready: Called when there is something to be read; it calls `read`, once what has to come first is said.
    """

    def __init__(self, say: Say, on_ready: Callable[[], None]) -> None:
        self._say = say
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, _Pipe] = {}
        self._written = select.epoll()  # asked before every line, and cheaper than reads that find nothing
        self._now = _Teller(LATEST)
        self._offered: list[int] = []  # writing ends
        self._of_offered: list[_Pipe] = []  # and what reads them; nobody has them yet
        self._pace = late_pace()
        self._paused: list[int] = []
        self._untold: list[_Teller] = []

    def add(self, fd: int, name: str, teller: _Teller | None = None) -> _Pipe:
        """Read a pipe to its end; Node's own standard output or error."""
        os.set_blocking(fd, False)
        self._pipes[fd] = pipe = _Pipe(fd, name, teller)
        self._listen(fd)
        return pipe

    def begin(self, serial: int) -> list[int]:
        """Return the descriptors, in this process, of the pipes for the children of a cell that begins: stdout and stderr."""
        self._now = _Teller(serial)
        if not self._of_offered:
            for fd in self._offered:
                os.close(fd)
            ends = [os.pipe2(os.O_CLOEXEC) for _ in _NAMES]
            self._offered = [writing for _, writing in ends]
            self._of_offered = [self.add(reading, name) for (reading, _), name in zip(ends, _NAMES, strict=True)]
        for pipe in self._of_offered:
            pipe.teller = self._now
        return self._offered

    def used(self) -> None:
        """Note that the cell which began last uses what it was offered; the next one gets others."""
        self._of_offered = []

    def end(self) -> None:
        """Note that the cell which began last has ended, and say the rest of what its children said before that."""
        self._tell(self._now)
        self._now.end()

    def read(self) -> None:
        """Take what was written by now, as far as it is to be read now."""
        for _ in range(_READS_A_TURN):
            ready = self._written.poll(0)
            if not [fd for fd, _ in ready if self._read(fd)]:
                return

    def read_rest(self) -> None:
        """Take what is there once Node has ended, and what it told of that."""
        self._pace = late_pace()
        self._resume()
        self.read()

    def _listen(self, fd: int) -> None:
        self._written.register(fd, select.EPOLLIN)
        self._loop.add_reader(fd, self._on_ready)

    def _hush(self, fd: int) -> None:
        self._written.unregister(fd)
        self._loop.remove_reader(fd)

    def _read(self, fd: int) -> bool:
        """Take one piece from a pipe; False when there was none."""
        pipe = self._pipes[fd]
        teller = pipe.teller or self._now
        if teller.is_over and self._pace.wait_s():
            self._pause(fd)
            return False
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if teller.is_over:
            self._pace.spend(len(data))
        self._take(teller, pipe, pipe.decoder.decode(data, final=not data))
        if not data:
            self._hush(fd)
            os.close(fd)
            del self._pipes[fd]
        return True

    def _pause(self, fd: int) -> None:
        self._hush(fd)
        if not self._paused:
            self._loop.call_later(_PAUSE_S, self._resume)
        self._paused.append(fd)

    def _resume(self) -> None:
        paused, self._paused = self._paused, []
        for fd in paused:
            self._listen(fd)

    def _take(self, teller: _Teller, pipe: _Pipe, text: str) -> None:
        if teller.overflow is None and teller.room > 0:
            fitting, text = text[: teller.room], text[teller.room :]
            teller.room -= len(fitting)
            if fitting:
                self._say(teller.serial if pipe.teller else LATEST, pipe.name, fitting, 0)
        if not text:
            return
        if teller.overflow is None:
            teller.overflow = Overflow()
            if teller.is_over:
                self._tell_later(teller)
        teller.overflow.add(pipe.name, text)

    def _tell_later(self, teller: _Teller) -> None:
        if not self._untold:
            self._loop.call_later(TELL_EVERY_S, self._tell_untold)
        self._untold.append(teller)

    def _tell_untold(self) -> None:
        untold, self._untold = self._untold, []
        for teller in untold:
            self._tell(teller)

    def _tell(self, teller: _Teller) -> None:
        overflow, teller.overflow = teller.overflow, None
        for name, text, notes in overflow.take() if overflow else ():
            self._say(teller.serial, name, text, notes.get("missing_chars", 0))
