"""A command of the user's, executed on this machine: its status and what it printed.

Flows in: a command as a shell reads it, a folder, what it gets on its standard input. Flows out: how it ended. Decided here: that it
has a deadline, ends with all that it started in its process group, and that only the beginning and the end of what it prints are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KEPT_BYTES: Final = 64 * 1024
"""Of the beginning, and of the end."""
_CHUNK_BYTES: Final = 64 * 1024


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
    stdin = PIPE if given else DEVNULL
    process = await asyncio.create_subprocess_shell(
        command, cwd=folder, stdin=stdin, stdout=PIPE, stderr=STDOUT, start_new_session=True
    )
    printed = _Printed()
    status: int | None = None
    try:
        async with asyncio.timeout(deadline_s), asyncio.TaskGroup() as tasks:
            tasks.create_task(_give(process, given))
            tasks.create_task(printed.read(process))
            status = await process.wait()
            _kill(process)  # what it left behind would hold its output open
    except TimeoutError:
        status = None
    finally:
        _kill(process)
        with contextlib.suppress(ProcessLookupError):
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]
    return Ended(status, printed.text)


class _Printed:
    """The beginning and the end of what is printed."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._missing = 0

    async def read(self, process: Process) -> None:
        if process.stdout is None:
            return
        while chunk := await process.stdout.read(_CHUNK_BYTES):
            room = _KEPT_BYTES - len(self._head)
            self._head += chunk[:room]
            tail = self._tail + chunk[max(0, room) :]
            self._missing += max(0, len(tail) - _KEPT_BYTES)
            self._tail = tail[-_KEPT_BYTES:]

    @property
    def text(self) -> str:
        cut = f"\n[{self._missing} bytes are missing here]\n".encode() if self._missing else b""
        return (self._head + cut + self._tail).decode("utf-8", "replace")


async def _give(process: Process, given: str) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given.encode("utf-8", "replace"))
        await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
        await process.stdin.wait_closed()


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
