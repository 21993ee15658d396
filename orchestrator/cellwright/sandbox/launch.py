"""Starting a sandbox's outermost process, and ending it for certain.

Flows in: a command, a uid, descriptors to keep. Flows out: a `Launched`, whose end can be waited for and made.
Decided here: the process gets an empty environment and no terminal, is a session leader of its own (so that a Ctrl-C
at our terminal reaches us and not it), and dies with us. It must be launched from a thread that lives as long as it
does: the parent-death signal follows the thread, not the process. Asyncio forks in the loop's own thread, so it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cellwright.errors import CellwrightError

END_S: Final = 5.0
"""Seconds that a killed process has to be gone; the kernel needs milliseconds."""
_TAIL_BYTES: Final = 4000
_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


class Launched:
    """One running outermost process. Its standard input is a leash: it ends when we do."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._tail = bytearray()
        self._drain = asyncio.ensure_future(self._keep_tail())  # awaited in end()

    @property
    def pid(self) -> int:
        """Process id outside."""
        return self._process.pid

    async def ended(self) -> str:
        """Wait until it has ended; return how, as a sentence."""
        return how_it_ended(await self._process.wait())

    def ask_to_end(self) -> None:
        """Let go of the leash: a kernel host that notices stops in order."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def end(self) -> None:
        """Kill it and everything below it; return once all of that is gone.

        The kernel reaps a pid namespace's first process only after every other one in it. So that one is killed, and
        bubblewrap, which waits for it, ends by itself; killed first, it would leave the last of them for a moment.
        """
        if self._process.returncode is None:
            _kill(_children(self.pid))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await self._process.wait()
        if self._process.returncode is None:
            _kill([self.pid])
        try:
            async with asyncio.timeout(END_S):
                await self._gone()
        except TimeoutError:
            raise CellwrightError(
                f"The sandbox of process {self.pid} was killed and is still there. Usually the machine is overloaded, or "
                "a disk hangs. It can do nothing more. Look at the process."
            ) from None
        finally:
            self.ask_to_end()

    async def _gone(self) -> None:
        """Wait until it has ended and all that it said is read."""
        await self._process.wait()
        await self._drain

    def log_tail(self) -> str:
        """Return the end of what it wrote to stderr, for an error message."""
        tail = self._tail.decode("utf-8", "replace").strip()
        return f"It said: {tail}" if tail else "It said nothing."

    async def _keep_tail(self) -> None:
        """Read what it writes, so that it never blocks, and keep only the end, so that it cannot fill anything."""
        stderr = self._process.stderr
        while stderr is not None and (chunk := await stderr.read(65536)):
            self._tail += chunk
            del self._tail[:-_TAIL_BYTES]


async def launch(command: Sequence[str], *, uid: int | None, keep: Sequence[int]) -> Launched:
    """Start a process with nothing of our environment.

    Args:
        command: Program and arguments.
        uid: Numeric user and group to become first; None to stay who we are.
        keep: Descriptors that it inherits.
    """
    return Launched(await start_process(command, uid=uid, keep=keep, environment=_ENVIRONMENT))


async def start_process(
    command: Sequence[str], *, uid: int | None, keep: Sequence[int], environment: Mapping[str, str]
) -> Process:
    """Start what becomes a `Launched`; arguments as with `launch`."""
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=PIPE,
        env=environment,
        cwd="/",
        start_new_session=True,
        pass_fds=tuple(keep),
        user=uid,
        group=uid,
        extra_groups=None if uid is None else (),
    )


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [pid]
    except OSError:
        return [pid]


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself in this moment
            os.kill(pid, signal.SIGKILL)


def memfd(name: str, data: bytes) -> int:
    """Return a memory file that holds `data`, at its beginning."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def how_it_ended(status: int) -> str:
    """Return an exit status as a sentence."""
    if status >= 0:
        return f"It exited with status {status}."
    try:
        return f"It was ended by {signal.Signals(-status).name}."
    except ValueError:
        return f"It was ended by signal {-status}."
