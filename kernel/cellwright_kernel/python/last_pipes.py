"""What was written to descriptors 1 and 2 of a Python kernel just before its death, and not read there any more.

Flows in: the reading ends of a cell's pipes, handed from the kernel to its host as the cell begins. Flows out: after the
process is gone, what is left in them. Decided here: a thread of the kernel itself reads them, and dies with it; a crash's
own report (`faulthandler`) is written in the last moment, so that it was lost every time. The host keeps the ends of
the last cell and reads them only then; a pipe lasts as long as anybody has it open. What the kernel sends is a stranger's:
nothing but a pipe is kept, two at most, and a bounded part of them is read, without waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from cellwright_kernel.python.last_words import LastWords

NAME = "pipes"
"""The host's socket, beside the connection file."""

_KINDS = ("stdout", "stderr")
_ID_BYTES = 126
_MOST_BYTES = 256 * 1024
"""A pipe holds 64 KiB unless somebody asked for more."""


class PipesGiver:
    """The kernel's side.

    Args:
        path: The host's socket. Where there is none, as with a kernel that somebody else started, nothing is handed over.
    """

    def __init__(self, path: Path) -> None:
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            self._socket = None

    def hand_over(self, msg_id: str, readers: Sequence[int]) -> None:
        """Give the host the reading ends of a cell's pipes, of stdout and of stderr; 20 µs."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the host is behind: this cell has to do without
                socket.send_fds(self._socket, [msg_id.encode()[:_ID_BYTES]], readers)

    def close(self) -> None:
        """Hand nothing over any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class LastPipes:
    """The host's side, for one kernel process; it exists before that is started.

    Args:
        folder: That of the connection file.

    Raises:
        OSError: The socket could not be made.
    """

    def __init__(self, folder: Path) -> None:
        self._msg_id = ""
        self._pipes: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.bind(str(folder / NAME))
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._take)

    def left(self) -> list[LastWords]:
        """What nobody has read; once the process has ended. Its numbers are 0."""
        if self._socket.fileno() >= 0:
            while self._take():
                pass
        texts = [_drained(pipe).decode("utf-8", "replace") for pipe in self._pipes]
        return [LastWords(0, kind, self._msg_id, text) for kind, text in zip(_KINDS, texts, strict=False) if text]

    def close(self) -> None:
        """Let go of all; safe to call twice."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()
        self._drop()

    def _take(self) -> bool:
        """Take what was handed over for one cell; False when there was nothing."""
        try:
            data, given, _, _ = socket.recv_fds(self._socket, _ID_BYTES, len(_KINDS), socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        self._drop()
        self._msg_id = data.decode("utf-8", "replace")
        for fd in given:
            try:
                if stat.S_ISFIFO(os.fstat(fd).st_mode):
                    # a description of our own: whether reading waits is a property of that, and the giver has the other
                    self._pipes.append(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            except OSError:
                continue
            finally:
                os.close(fd)
        return True

    def _drop(self) -> None:
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            os.close(pipe)


def _drained(pipe: int) -> bytes:
    found = b""
    with contextlib.suppress(OSError):  # empty, and others may still write
        while len(found) < _MOST_BYTES and (data := os.read(pipe, _MOST_BYTES - len(found))):
            found += data
    return found
