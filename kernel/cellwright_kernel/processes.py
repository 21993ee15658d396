"""The processes inside, as /proc shows them.

Flows in: a kernel's process id and the mark in its environment. Flows out: which processes are its own, which of them
began with a cell; signals to them. Decided here: what belongs to a kernel: its descendants, and orphans that carry its
mark; and that Playwright's driver, the Node of the JavaScript kernel and whoever reads the screen, though children, are part
of the kernel: they are never interrupted and die only with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "CELLWRIGHT_KERNEL"
"""Variable in the environment of a kernel and of all it starts."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_PASSES: Final = 20
"""Sweeps after which killing gives up on processes that make new ones faster."""


@dataclass(frozen=True)
class Process:
    """One process, at the moment of looking."""

    pid: int
    parent: int
    state: str
    """`Z`: dead and not yet reaped."""
    started_at: float
    """Seconds since the machine's start."""

    @property
    def command(self) -> str:
        """Its command line, shortened; empty when it is gone."""
        words = _read(self.pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").split()
        return " ".join(words)[:80]


def now() -> float:
    """Return the moment in the same count as `Process.started_at`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def of_kernel(kernel: int, mark: str, *, since: float = 0.0) -> list[Process]:
    """Return the live processes a kernel has started, without itself, Playwright's driver and its own Node.

    Args:
        kernel: Its process id; it may be dead.
        mark: The value of its mark.
        since: Only those started at or after this moment; a hundredth of a second of doubt counts as after.
    """
    table = _table()
    children: dict[int, list[Process]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    roots = list(children.get(kernel, ()))
    roots += [orphan for orphan in children.get(os.getpid(), ()) if orphan.pid != kernel and _has_mark(orphan, mark)]
    found = []
    while roots:
        process = roots.pop()
        roots += children.get(process.pid, ())
        if process.state != "Z" and process.started_at >= since - 1.5 / _TICKS and not _is_driver(process):
            found.append(process)
    return found


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to each that is still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


async def kill_all(kernel: int, mark: str, *, since: float = 0.0) -> dict[int, str]:
    """Kill what a kernel has started until nothing of it is left; return process ids and command lines."""
    killed: dict[int, str] = {}
    for _ in range(_PASSES):
        found = of_kernel(kernel, mark, since=since)
        if not found:
            break
        killed.update((process.pid, process.command) for process in found if process.pid not in killed)
        send(found, signal.SIGKILL)
        await asyncio.sleep(0.01)  # between two looks; the kernel needs about a millisecond to let one go
    return killed


def become_subreaper() -> None:
    """Become the parent of every orphan below this process."""
    import ctypes  # noqa: PLC0415 - for this one call

    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def reap_orphans(seen: set[int]) -> set[int]:
    """Reap dead children that nobody waits for: those already dead at the last look.

    Children that asyncio started are reaped by asyncio at once, so they are never seen dead twice, a second apart.

    Args:
        seen: What the last call returned.
    """
    dead = {process.pid for process in _table() if process.parent == os.getpid() and process.state == "Z"}
    for pid in dead & seen:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return dead - seen


def is_alive(pid: int) -> bool:
    """Return whether a process is there and not dead."""
    found = _process(pid)
    return found is not None and found.state != "Z"


def _table() -> list[Process]:
    return [found for name in os.listdir(_PROC) if name.isdigit() and (found := _process(int(name)))]  # noqa: PTH208 - names only, 40 times as fast


def _process(pid: int) -> Process | None:
    # the name in parentheses may hold anything, parentheses too
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return Process(pid, int(fields[1]), fields[0].decode(), int(fields[19]) / _TICKS)


def _has_mark(process: Process, mark: str) -> bool:
    return f"{MARK}={mark}".encode() in _read(process.pid, "environ").split(b"\0")


def _is_driver(process: Process) -> bool:
    arguments = _read(process.pid, "cmdline").split(b"\0")
    if arguments[1:4] == [b"-P", b"-m", b"cellwright_kernel.screen.reader"]:
        return True
    is_ours = b"run-driver" in arguments or any(name.endswith(b"/javascript/runner.cjs") for name in arguments)
    return is_ours and arguments[0].endswith(b"/playwright/driver/node")


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
