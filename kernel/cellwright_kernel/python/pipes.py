"""The pipes at descriptors 1 and 2: what child processes write there, cell by cell.

Flows in: bytes that children write, and word that a cell begins. Flows out: text, each piece with its cell and its stream, in
the order in which it was found. Decided here: each cell gets a pair of pipes of its own, so that what a child writes after
its cell ended still arrives in the old pipe; that a child which writes without end holds nobody up for ever; and that the
pipes of cells that have ended are read slowly (`late_pace.py`).

Nothing here is to be called but with the gate entered.
"""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Callable
from typing import Final

from cellwright_kernel.iopub import Iopub
from cellwright_kernel.late_pace import late_pace
from cellwright_kernel.python.last_words import LastWordsBox
from cellwright_kernel.python.origin import Origin

STREAM_FDS: Final = {"stdout": 1, "stderr": 2}
_READS_A_DRAIN: Final = 32
"""A child that writes without end must not hold the cell's own writes up for ever."""


class _Pipe:
    """The reading end of what stands at descriptor 1 or 2 during one cell."""

    def __init__(self, name: str, origin: Origin) -> None:
        self.name = name
        self.origin = origin
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")


class Pipes:
    """All pipes that somebody may still write to.

    Args:
        iopub: Greeted when somebody has connected to it.
        box: Where what was read stays if the process dies of what comes next.
        take: Gets each piece of text.
    """

    def __init__(self, iopub: Iopub, box: LastWordsBox, take: Callable[[Origin, str, str], None]) -> None:
        self._iopub = iopub
        self._box = box
        self._take = take
        self._pipes: dict[int, _Pipe] = {}
        self._pace = late_pace()
        self._paused: list[int] = []  # pipes of ended cells, until they may be read again
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.poll = self._epoll.poll
        """Returns what there is to read; to be called without the gate, too."""

    def start(self) -> None:
        """Watch for what wakes the reader, and for whoever connects."""
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._iopub.fileno(), select.EPOLLIN)

    def open(self, origin: Origin) -> list[int]:
        """Put new pipes at the descriptors: what is written there from now on is this cell's. Return their reading ends."""
        readers = []
        for name, fd in STREAM_FDS.items():
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(reader, False)
            os.dup2(writer, fd, inheritable=True)
            os.close(writer)
            self._pipes[reader] = _Pipe(name, origin)
            self._epoll.register(reader, select.EPOLLIN)
            readers.append(reader)
        return readers

    def wake(self) -> None:
        """Have a `poll` that waits return."""
        os.eventfd_write(self._wake, 1)

    def drain(self) -> None:
        """Take what children have written by now."""
        for _ in range(_READS_A_DRAIN):
            ready = self._epoll.poll(0)
            if not ready or not [fd for fd, _ in ready if self._read(fd)]:
                return

    def look(self, ready: list[int]) -> None:
        """Take a piece from each that `poll` has found ready."""
        for fd in ready:
            self._read(fd)
        if self._wake in ready:
            os.eventfd_read(self._wake)

    def resume(self) -> bool:
        """Read pipes of ended cells again if that is their turn; return whether any has to wait on."""
        if self._paused and not self._pace.wait_s():
            for fd in self._paused:
                self._epoll.register(fd, select.EPOLLIN)
            self._paused = []
        return bool(self._paused)

    def _read(self, fd: int) -> bool:
        """Take one piece from a pipe; False when there was none."""
        pipe = self._pipes.get(fd)
        if pipe is None:
            if fd != self._wake:
                self._iopub.greet()
            return False
        is_late = not pipe.origin.running
        if is_late and self._pace.wait_s():
            self._pause(fd)
            return False
        try:
            data = self._box.land(fd, pipe.name, pipe.origin.msg_id)
        except BlockingIOError:
            return False
        if data:
            if is_late:
                self._pace.spend(len(data))
            self._take(pipe.origin, pipe.name, pipe.decoder.decode(data))
            self._box.taken()
        else:  # the last child that had it is gone
            self._take(pipe.origin, pipe.name, pipe.decoder.decode(b"", final=True))
            self._epoll.unregister(fd)
            os.close(fd)
            del self._pipes[fd]
        return True

    def _pause(self, fd: int) -> None:
        if fd not in self._paused:  # another thread may have found it ready in the same moment
            self._epoll.unregister(fd)
            self._paused.append(fd)
