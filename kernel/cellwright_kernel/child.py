"""A process of the desktop: started in a group of its own, watched, ended with everything it started.

Flows in: a command, an environment, a folder for its log. Flows out: whether it runs, and how it ended, as a
sentence with the last lines of its log. Decided here: how such a process is started and how it is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

_LOOK_EVERY_S = 0.01
_STOP_S = 1.0
_Fact = TypeVar("_Fact")


class NotUp(Exception):
    """A part of the desktop did not come up. The message says what happened, what it usually means, what to do."""


class Child:
    """One process of ours and everything it starts."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self.name = name

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        pass_fds: Sequence[int] = (),
        groups: Sequence[int] = (),
    ) -> Self:
        """Start `command`.

        Args:
            name: What people call it, such as `Xvnc`; also the name of its log.
            command: Program and arguments.
            environment: The whole environment it gets. Its PATH is the program's own; the program is found by ours.
            folder: Where its log is written, as `NAME.log`.
            pass_fds: File descriptors that stay open in it.
            groups: Descriptors to which its process id is written, to have it in control groups: `HostSettings.groups`.

        Raises:
            NotUp: the program does not exist, or cannot be started.
        """
        log = folder / f"{name}.log"
        # setpriv: if the kernel host is killed, nobody else would end these (outside of a pid namespace).
        try:
            with log.open("wb") as out:
                process = await create_subprocess_exec(
                    _found("setpriv"),
                    "--pdeathsig",
                    "KILL",
                    _found(command[0]),
                    *command[1:],
                    stdin=DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=dict(environment),
                    pass_fds=pass_fds,
                    start_new_session=True,
                )
        except OSError as error:
            raise NotUp(f"{name} could not be started: {error}. {_REMEDY}") from error
        for group in groups:
            with contextlib.suppress(ProcessLookupError):  # it has ended already, which whoever waits for it will see
                os.write(group, str(process.pid).encode())
        return cls(name, process, log)

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """False once it has ended."""
        return self._process.returncode is None

    @property
    def was_killed(self) -> bool:
        """True once it was ended by SIGKILL."""
        return self._process.returncode == -signal.SIGKILL

    async def ended(self) -> str:
        """Wait until it has ended; return how, as a sentence."""
        await self._process.wait()
        return self.how_it_ended()

    def how_it_ended(self) -> str:
        """Return how it ended, or that it runs, as a sentence."""
        match self._process.returncode:
            case None:
                return f"{self.name} is running."
            case code if code < 0:
                return f"{self.name} was ended by {_name_of(-code)}."
            case code:
                return f"{self.name} exited with status {code}."

    def log(self, last_bytes: int = 65536) -> str:
        """Return what it has written to stdout and stderr, or the last of it."""
        with self._log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - last_bytes))
            return log.read().decode(errors="replace")

    def tail(self, lines: int = 6) -> str:
        """Return the last lines of its log, indented, for an error message."""
        last = [line for line in self.log(4096).splitlines() if line.strip()][-lines:]
        return "\n".join(f"    {line[:300]}" for line in last) or "    (its log is empty)"

    async def wait_for(self, fact: Callable[[], Awaitable[_Fact | None]], what: str, within_s: float) -> _Fact:
        """Ask for `fact` until it is there, the process has ended, or `within_s` seconds are over.

        Args:
            fact: Returns the fact, or None while it is not there yet.
            what: The fact in words, such as `X display`.
            within_s: The end of the wait.

        Raises:
            NotUp: with how the process ended and the last lines of its log.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while (found := await fact()) is None:
            if not self.running or loop.time() > end:
                within = f" within {within_s:g} s" if self.running else ""
                state = self.how_it_ended().rstrip(".")
                raise NotUp(f"No {what} came up{within} ({state}). {_REMEDY} Its log:\n{self.tail()}")
            await asyncio.sleep(_LOOK_EVERY_S)
        return found

    async def stop(self, *, gently_s: float = _STOP_S) -> None:
        """End it and everything it started; safe to call twice.

        Args:
            gently_s: Seconds it may take to end by itself after SIGTERM.
        """
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(gently_s):
                await self._process.wait()
        except TimeoutError:
            pass
        self._signal(signal.SIGKILL)
        await self._process.wait()
        end = asyncio.get_running_loop().time() + _STOP_S
        while _group_lives(self.pid) and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - others end, not we
            await asyncio.sleep(_LOOK_EVERY_S)

    def kill(self) -> None:
        """End it at once, with its group; whoever waits for it sees it end."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # the group is empty; or only other users' are left in it
            return


def _found(program: str) -> str:
    """Return where a program is; what a model's PATH says (`--env PATH=...`) is not asked."""
    return shutil.which(program) or program


_REMEDY = "Usually a package is missing or the memory is used up; `cellwright doctor` says which."


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal, of which only the first and the last have names
        return f"signal {number}"


def _group_lives(group: int) -> bool:
    """Say whether a process of the group is there that is not a zombie: whose orphans are reaped, others decide."""
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = process.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):  # it has just ended
            continue
        if int(its_group) == group and state not in "ZX":
            return True
    return False
