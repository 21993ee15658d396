"""What a sandbox holds of the machine at one moment, and what it holds more at another.

Flows in: a session. Flows out: `Holdings`; sentences about growth. Decided here: what counts as growth. Processes, files
and segments of shared memory: one more is growth. Descriptors: one more in any process of ours, or of the desktop. Only
Chromium opens and writes things of its own in its first minutes, whatever pages do (53 small files of its profile, 9
descriptors); so it may have some more, and just as few after a short while as after a long one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cellwright.bench.processes import Process, below
from cellwright.session import Session

PLACES: Final = ("tmp", "dev/shm", "home/agent", "run/kernel-host", "run/browser")
CHROMIUM_DESCRIPTORS: Final = 24
PROFILE_FILES: Final = 120
PROFILE: Final = "/desktop/chromium/"
LATE: Final = Counter({"Chromium OnDeviceModelService": 1, "Chromium broker": 1})
"""Three minutes after its start Chromium looks how well a language model would run, in a process that stays (5 MB)."""
LOOK_EVERY_S: Final = 0.25
SETTLED_S: Final = 20.0
"""Seconds until what was closed must be gone; Chromium ends a renderer some seconds after its last page."""


@dataclass(frozen=True)
class Holdings:
    """What is held; each by a name that means the same at any moment."""

    processes: Counter[str]
    descriptors: Counter[str]
    """Open files by the name of the process; of several of one name, the most."""
    files: frozenset[str]
    """What lies in the places that can be written to."""
    segments: int
    """System V shared memory: pictures of the screen."""
    resident_kb: Counter[str]

    @property
    def profile(self) -> frozenset[str]:
        """The files of Chromium's profile."""
        return frozenset(name for name in self.files if PROFILE in name)

    @property
    def others(self) -> frozenset[str]:
        """All other files."""
        return self.files - self.profile

    def more_than(self, before: Holdings) -> list[str]:
        """Return what there is more of than before, a sentence each."""
        said = [f"{count} more of: {name}" for name, count in (self.processes - before.processes - LATE).items()]
        for name, count in (self.descriptors - before.descriptors).items():
            if count > (CHROMIUM_DESCRIPTORS if name.startswith("Chromium") else 0):
                said.append(f"{count} more descriptors: {name}")
        for place, were, most in (
            ("Chromium's profile", before.profile, PROFILE_FILES),
            ("elsewhere", before.others, 0),
        ):
            are = self.profile if most else self.others
            if len(are) > len(were) + most:
                said.append(f"{len(are) - len(were)} more files, {place}: {', '.join(sorted(are - were)[:8])}")
        if self.segments > before.segments:
            said.append(f"{self.segments - before.segments} more segments of shared memory")
        return said


async def holdings(session: Session) -> Holdings:
    """Look at everything inside."""
    cell = await session.execute("print(sum(1 for _ in open('/proc/sysvipc/shm')) - 1)")
    assert cell.status == "ok", cell.text
    processes = below(session.info.pid)
    descriptors: Counter[str] = Counter()
    resident: Counter[str] = Counter()
    for process in processes:
        descriptors[process.name] = max(descriptors[process.name], _descriptors(process))
        resident[process.name] += _resident_kb(process)
    return Holdings(
        Counter(process.name for process in processes),
        descriptors,
        frozenset(_files(next(process for process in processes if process.name == "kernel host"))),
        int(cell.text),
        resident,
    )


async def growth_since(before: Holdings, session: Session) -> tuple[list[str], Holdings]:
    """Return what there is more of, once what was closed has had time to be gone; and what there is."""
    end = time.monotonic() + SETTLED_S
    while True:
        now = await holdings(session)
        more = now.more_than(before)
        if not more or time.monotonic() > end:
            return more, now
        await asyncio.sleep(LOOK_EVERY_S)


async def growth_outside(before: int) -> list[str]:
    """Return how many more files this process has open, once what it does after a cell has had time to be done."""
    end = time.monotonic() + SETTLED_S
    while (more := own_descriptors() - before) > 0 and time.monotonic() < end:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(LOOK_EVERY_S)
    return [f"{more} more descriptors: the process outside"] if more > 0 else []


def own_descriptors() -> int:
    """Return how many files this process, which stands for the outside, has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only


def _descriptors(process: Process) -> int:
    try:
        return len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208 - names only
    except OSError:
        return 0


def _resident_kb(process: Process) -> int:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def _files(kernel_host: Process) -> list[str]:
    root = Path(f"/proc/{kernel_host.pid}/root")
    return [
        f"/{Path(folder).relative_to(root)}/{name}"
        for place in PLACES
        for folder, folders, names in os.walk(root / place)
        for name in (*folders, *names)
    ]
