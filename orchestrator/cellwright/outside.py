"""A command of the user's, executed on this machine: its status and what it printed.

Flows in: a command as a shell reads it, a folder, what it gets on its standard input. Flows out: how it ended. Decided here: that it
has a deadline, ends with all that it started in its process group, is not waited for where something outside of that group holds its
output open, and that only the beginning and the end of what it prints are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import Process
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEPT_BYTES: Final = 64 * 1024
"""Of the beginning, and of the end."""
_CHUNK_BYTES: Final = 64 * 1024
_REST_S: Final = 1.0
"""Seconds in which the rest of what it printed is read when it has ended."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int | None
    """Its exit status, negative for a signal; absent when its deadline came first."""
    text: str
    """What it printed, stdout and stderr in one; only beginning and end where that is much."""


async def run_command(command: str, folder: Path, given: str, *, deadline_s: float) -> Ended:
    """Execute a command by the user's shell and return how it ended; nothing of its process group is left.

    Args:
        command: As the shell reads it.
        folder: Where it is executed.
        given: Its standard input.
        deadline_s: Seconds until it is killed.
    """
    with tempfile.TemporaryFile() as stdin:
        stdin.write(given.encode("utf-8", "replace"))
        stdin.seek(0)
        # a pipe of our own: asyncio's own wait for a process would wait for whoever else holds its pipe open, too
        ours, its = os.pipe()
        reader, reading = await _reader(ours)
        try:
            process = await asyncio.create_subprocess_shell(
                command, cwd=folder, stdin=stdin, stdout=its, stderr=its, start_new_session=True
            )
        except BaseException:
            reading.close()
            raise
        finally:
            os.close(its)
    printed = _Printed()
    status: int | None = None
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as tasks:
                read = tasks.create_task(printed.read(reader))
                status = await process.wait()
                _kill(process)  # what it left behind would hold its output open
                await asyncio.wait([read], timeout=_REST_S)
                read.cancel()  # what made itself a session of its own still does
    finally:
        _kill(process)
        await process.wait()
        reading.close()
    return Ended(status, printed.text)


async def _reader(pipe: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader()
    reading, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb", 0)
    )
    return reader, reading


class _Printed:
    """The beginning and the end of what is printed."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._missing = 0

    async def read(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            room = _KEPT_BYTES - len(self._head)
            self._head += chunk[:room]
            tail = self._tail + chunk[max(0, room) :]
            self._missing += max(0, len(tail) - _KEPT_BYTES)
            self._tail = tail[-_KEPT_BYTES:]

    @property
    def text(self) -> str:
        cut = f"\n[{self._missing} bytes are missing here]\n".encode() if self._missing else b""
        return (self._head + cut + self._tail).decode("utf-8", "replace")


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
