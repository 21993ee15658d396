"""What runs below a process, by names that a person knows, and what it takes of memory.

Flows in: a process id, such as that of a sandbox's first process. Flows out: its descendants. Decided here: what each
is called, and that memory is PSS: what several processes share, such as a program's code, counts for each in part. So the
sum over a sandbox is what it takes of this machine, and less the more sandboxes there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_OURS: Final = (
    (re.compile(rb"^[^\0]*python[^\0]*\0(-P\0)?-m\0cellwright_kernel\0"), "kernel host"),
    (re.compile(rb"^[^\0]*python[^\0]*\0(-P\0)?-m\0cellwright_kernel\.python\0"), "Python kernel"),
    (re.compile(rb"^[^\0]*python[^\0]*\0(-P\0)?-m\0cellwright_kernel\.javascript\0"), "JavaScript kernel"),
    (re.compile(rb"^[^\0]*python[^\0]*\0(-P\0)?-m\0cellwright_kernel\.screen\.reader\0"), "reader of the screen"),
    (re.compile(rb"/node\0.*/javascript/runner\.cjs\0", re.DOTALL), "JavaScript kernel's Node"),
    (re.compile(rb"/node\0.*\0run-driver\0", re.DOTALL), "Playwright's driver"),
)
_CHROMIUM: Final = re.compile(rb"^[^\0 ]*/(?:chrome|chromium)[\0 ]")
_TYPE: Final = re.compile(rb"--type=([\w-]+)(?:.*?--utility-sub-type=[\w.]*?(\w+)[\0 ])?", re.DOTALL)
_PSS: Final = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Process:
    """One process."""

    pid: int
    name: str
    """Such as `kernel host`, `Chromium`, `Chromium renderer`, `Chromium NetworkService`; of what is not Cellwright's own, its program's name."""

    @property
    def pss_bytes(self) -> int | None:
        """What it takes of memory; None when it has ended, or is not ours to look at."""
        try:
            found = _PSS.search((_PROC / str(self.pid) / "smaps_rollup").read_text())
        except OSError:
            return None
        return int(found[1]) * 1024 if found else None


def below(pid: int) -> tuple[Process, ...]:
    """Return the descendants of a process, zombies left out."""
    parents = _parents()
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    named = [(one, _name(one)) for one in sorted(found - {pid})]
    return tuple(Process(one, name) for one, name in named if name is not None)


def pss_of(processes: tuple[Process, ...]) -> Mapping[str, int]:
    """Return the memory of processes by name, in bytes, largest first."""
    sums: dict[str, int] = {}
    for process in processes:
        sums[process.name] = sums.get(process.name, 0) + (process.pss_bytes or 0)
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _parents() -> dict[int, int]:
    parents = {}
    for folder in _PROC.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(folder.name)] = int(fields[1])
    return parents


def _name(pid: int) -> str | None:
    """None when it has ended meanwhile."""
    folder = _PROC / str(pid)
    try:
        command = (folder / "cmdline").read_bytes()
        program = (folder / "comm").read_text().strip()
    except OSError:
        return None
    for pattern, name in _OURS:
        if pattern.search(command):
            return name
    if _CHROMIUM.match(command):
        kind = _TYPE.search(command)
        return f"Chromium {(kind[2] or kind[1]).decode()}" if kind else "Chromium"
    return program
