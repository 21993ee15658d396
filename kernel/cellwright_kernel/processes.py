"""The processes inside, as /proc shows them.

Flows in: a kernel's process id and the mark in its environment. Flows out: which processes are its own, which of them
began with a cell; signals to them. Decided here: what belongs to a kernel: its descendants, and orphans of its session or
that carry its mark; and that Playwright's driver, the Node of the JavaScript kernel and whoever reads the screen, though
children, are part of the kernel: they are never interrupted and die only with it; who goes first where memory runs out, and
who gives way to everybody else; and that orphans become ours, and are reaped.

Where there are many processes, nobody's memory is read before all are stopped: command line and environment wait for a
process that forks and was put aside in the middle of it, more than a second each with 900 of them on two cores.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "CELLWRIGHT_KERNEL"
"""Variable in the environment of a kernel and of all it starts."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_EXITING: Final = 0x4
"""PF_EXITING, of the flags in a process's `stat`."""
_KILLED: Final = 1 << signal.SIGKILL - 1
_WAITING_SIGNALS: Final = re.compile(rb"^ShdPnd:\s*(?P<signals>[0-9a-f]+)$", re.MULTILINE)
MANY: Final = 32
"""More processes than this are stopped rather than interrupted, and told of by their names alone."""
CROWD: Final = 100
"""So many more processes at once are a crowd."""
_NICE: Final = 19
_NODES: Final = ("node", "MainThread", "node-MainThread")
"""What Node calls itself."""
KERNEL_SCORE: Final = 300
"""How early a kernel is killed where memory runs out; 1000 stands for all memory. Chromium gives its pages as much, and
itself 0."""
NODE_BYTES: Final = 640 * 1024**2
"""What Node reserves for code, 512 MiB, and for its threads, before any code has run; RLIMIT_DATA counts it."""
CELLS_SCORE: Final = 1000
"""What a cell has started goes first: its kernel keeps variables."""
_PASSES: Final = 40
"""Sweeps after which killing gives up on processes that make new ones faster."""


@dataclass(frozen=True)
class Process:
    """One process, at the moment of looking."""

    pid: int
    parent: int
    session: int
    """The process whose session it is in."""
    name: str
    """As it calls itself; at most 15 bytes."""
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
    for orphan in children.get(os.getpid(), ()):
        if orphan.pid != kernel and orphan.state != "Z" and (orphan.session == kernel or _has_mark(orphan, mark)):
            roots.append(orphan)
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


def count() -> int:
    """Return how many processes there are; of one that asks often this is the cheap question."""
    return sum(name.isdigit() for name in os.listdir(_PROC))  # noqa: PTH208 - names only


def goes_first(pid: int, score: int) -> None:
    """Have the Linux kernel kill a process before others where memory runs out, and what it starts from now on too.

    Hostile code can undo it for itself; what takes most of the memory is killed first all the same.
    """
    place = _PROC / str(pid) / "oom_score_adj"
    with contextlib.suppress(OSError, ValueError):  # it has ended
        if int(place.read_text()) < score:
            place.write_text(f"{score}")


def start_of_cell(pid: int) -> None:
    """A process was started by a cell: it goes before its kernel, unless it is a part of that."""
    found = _process(pid)
    if found is not None and not _is_driver(found):
        goes_first(pid, CELLS_SCORE)


def have_group_give_way(kernel: int) -> None:
    """Have a kernel, and what it has started, give way to everybody else from now on; it can never be undone.

    650 that fork without end left the kernel host 0.2 % of two cores where the Linux kernel does not share by session
    (in a control group of its own, as containers are), and it could not end them in 4 s. To look at each of them would
    have taken it too long as well.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, kernel, _NICE)


async def kill_all(kernel: int, mark: str, *, since: float = 0.0) -> dict[int, str]:
    """Kill what a kernel has started until nothing of it is left; return process ids and command lines.

    All of it is stopped before any is killed: what makes new ones faster than we can look makes none any more, and a
    stopped one leaves its place under the limit of processes to no other.
    """
    stopped = set[int]()
    killed: dict[int, str] = {}
    for _ in range(_PASSES):
        found = of_kernel(kernel, mark, since=since)
        if not found:
            break
        fresh = [process for process in found if process.pid not in stopped]
        send(fresh, signal.SIGSTOP)
        stopped.update(process.pid for process in fresh)
        if not fresh:
            killed.update(commands([process for process in found if process.pid not in killed]))
            send(found, signal.SIGKILL)
        await asyncio.sleep(0 if fresh else 0.01)  # the Linux kernel needs about a millisecond to let one go
    for _ in range(_PASSES):  # the dead, too, count under the limit of processes
        if not _reap(killed):
            break
        await asyncio.sleep(0.01)
    return killed


def commands(processes: Collection[Process]) -> dict[int, str]:
    """Return process ids and command lines; of many, their names."""
    return {process.pid: process.name if len(processes) > MANY else process.command for process in processes}


def _reap(killed: Collection[int]) -> bool:
    """Reap those of the killed that have become our children; return whether more may become so."""
    dead = [process for process in _table() if process.pid in killed and process.state == "Z"]
    for process in dead:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
    return any(process.parent in killed or process.parent == os.getpid() for process in dead)


def become_subreaper() -> None:
    """Become the parent of every orphan below this process."""
    import ctypes  # noqa: PLC0415 - for this one call

    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def keep_to_itself() -> None:
    """Close this process to the others of its uid: no debugger, no `/proc/PID/mem`, none of its descriptors to be taken.

    What it starts is not closed, since that ends with the next program.
    """
    import ctypes  # noqa: PLC0415 - for this one call

    pr_set_dumpable = 4
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


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


def is_ending(pid: int) -> bool:
    """Return whether a process does nothing any more: it was sent SIGKILL, or is exiting, or dead; 0.05 ms tell.

    Whoever started it hears of that only once all its threads are gone and it is reaped. A SIGKILL stays among the signals
    that wait for the whole process; its threads forget theirs a moment before they count as exiting.
    """
    try:
        waiting = _WAITING_SIGNALS.search((_PROC / str(pid) / "status").read_bytes())
        fields = _fields((_PROC / str(pid) / "stat").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:  # no descriptor is free, say: that is no sign of death
        return False
    is_killed = waiting is not None and int(waiting["signals"], 16) & _KILLED
    return bool(is_killed or fields[0] in (b"Z", b"X") or int(fields[6]) & _EXITING)


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal, and answers nothing."""
    return _fields(_read(pid, "stat"))[:1] in ([b"T"], [b"t"])


def _table() -> list[Process]:
    return [found for name in os.listdir(_PROC) if name.isdigit() and (found := _process(int(name)))]  # noqa: PTH208 - names only, 40 times as fast


def _process(pid: int) -> Process | None:
    stat = _read(pid, "stat")
    fields = _fields(stat)
    if len(fields) < 20:
        return None
    name = stat.partition(b"(")[2].rpartition(b")")[0].decode("utf-8", "replace")
    return Process(pid, int(fields[1]), int(fields[3]), name, fields[0].decode(), int(fields[19]) / _TICKS)


def _fields(stat: bytes) -> list[bytes]:
    # from the third field on; the name in parentheses may hold anything, parentheses too
    return stat.rpartition(b")")[2].split()


def _has_mark(process: Process, mark: str) -> bool:
    return f"{MARK}={mark}".encode() in _read(process.pid, "environ").split(b"\0")


def _is_driver(process: Process) -> bool:
    is_leader = process.session == process.pid
    if process.name not in _NODES and not is_leader:  # as what is forked without end
        return False
    arguments = _read(process.pid, "cmdline").split(b"\0")
    if is_leader and arguments[1:4] == [b"-P", b"-m", b"cellwright_kernel.screen.reader"]:
        return True
    is_ours = b"run-driver" in arguments or any(name.endswith(b"/javascript/runner.cjs") for name in arguments)
    return is_ours and arguments[0].endswith(b"/playwright/driver/node")


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
