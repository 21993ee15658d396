"""A row of the ladder's tables: a cell that does not end well, what is said of it, and what must be so after it.

Flows in: a table, or a session and a row. Flows out: what is not as the row says. Decided here: the rows of a language follow
one another in one session; after each the next cell works, and nothing of the cell's is left in the process table.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, CellStatus, Event, Language, PieceEvent, Rung
from tests.serving import alive, descendants
from tests.waiting import GUARD_S

DEADLINE_S = 1.0
"""How soon it is over is asked elsewhere; here it is only to have begun what does not end. What begins with a process has longer."""
GONE_S = 15.0
MOST_DEAD = 32
"""Children that a cell forked by hand and never waited for are its kernel's to wait for, as in any program; a crowd of them is not."""


@dataclass(frozen=True)
class Row:
    """A cell that does not end well, and what must be so after it."""

    name: str
    code: str
    status: CellStatus
    says: str
    """Stands in its answer, or in the next one's where it is noticed only then."""
    kept: bool
    """Whether variables are there afterwards."""
    rungs: tuple[Rung | None, ...] = (None,)
    """Which one may have ended it."""
    kills: Literal["host", "Xvnc", "openbox", "chromium"] | None = None
    """What is killed from outside once it has said `going`."""
    by: signal.Signals = signal.SIGKILL
    """The signal; SIGSTOP makes it hang."""
    next: str = ""
    """What the next cell does besides."""
    deadline_s: float = DEADLINE_S
    without_group: str | None = None
    """What is said instead where nothing holds the sandbox's memory as a whole."""

    @property
    def given_s(self) -> float:
        """Its deadline, with time for what is killed."""
        return self.deadline_s if self.kills is None else 2 * self.deadline_s


Table = dict[Language, tuple[Row, ...]]
BEFORE: dict[Language, str] = {"python": "before = 1", "javascript": "globalThis.before = 1"}
LOOK: dict[Language, str] = {
    "python": "log('before' in globals())",
    "javascript": "console.log('before' in globalThis)",
}


def check_names(table: Table) -> None:
    """What one language can stop is asked of the other too."""
    python, javascript = table.values()
    assert [row.name for row in python] == [row.name for row in javascript]


async def check_table(table: Table, runs: Path, spec: Spec | None = None, *, sessions: int = 1) -> None:
    """As `check_rows`, of all languages at once: for rows that wait more than they compute.

    Args:
        table: What to check.
        runs: Where the runs go.
        spec: What the sandboxes are like.
        sessions: How many there are of each language, beside each other; each has its share of the rows, in their order.
    """
    async with asyncio.TaskGroup() as tasks:
        each = [
            tasks.create_task(faults_of_rows({language: rows[number::sessions]}, language, runs, spec))
            for language, rows in table.items()
            for number in range(sessions)
        ]
    faults = [fault for one in each for fault in one.result()]
    assert not faults, "\n".join(faults)


async def check_rows(table: Table, language: Language, runs: Path, spec: Spec | None = None) -> None:
    """Execute the language's rows in a session of their own; fail with all that is not as they say."""
    faults = await faults_of_rows(table, language, runs, spec)
    assert not faults, "\n".join(faults)


async def faults_of_rows(table: Table, language: Language, runs: Path, spec: Spec | None) -> list[str]:
    """Return what is not as the language's rows say."""
    faults: list[str] = []
    async with Session.open(spec, runs=runs) as session:
        is_held = "for the whole sandbox, " in session.info.limits["memory_bytes"]
        for row in table[language]:
            found = await faults_of(
                session, language, replace(row, says=row.says if is_held else row.without_group or row.says)
            )
            faults += [f"{language}, {row.name}: {fault}" for fault in found]
    return faults


async def faults_of(session: Session, language: Language, row: Row) -> list[str]:
    """Return what is not as the row says."""
    await session.execute(BEFORE[language], language=language)
    # the browser's helpers come and go; everything else that is there afterwards and was not before is the cell's
    async with asyncio.timeout(row.given_s + GUARD_S):
        cell = await executed(session, language, row)
    after = await session.execute(f"{row.next}\n{LOOK[language]}", language=language, deadline_s=30)
    found = [
        *([] if cell.status == row.status else [f"its status is {cell.status}"]),
        *([] if cell.rung in row.rungs else [f"its rung is {cell.rung}"]),
        *([] if row.says in cell.text + after.text else [f"it says {cell.text[-600:]!r}, then {after.text[-300:]!r}"]),
        *([] if after.status == "ok" else [f"the next cell ended as {after.status}: {after.text[-600:]!r}"]),
    ]
    kept = after.text.splitlines()[-1].lower()
    if kept != str(row.kept).lower():
        found.append(f"variables are kept: {kept}")
    if left := await left_over(session.info.pid):
        found.append(f"left in the process table: {left}")
    return found


async def executed(session: Session, language: Language, row: Row) -> Cell:
    going = asyncio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, PieceEvent) or (event.type == "output" and event.output.type == "text"):
            going.set()

    executing = asyncio.ensure_future(
        session.execute(row.code, language=language, deadline_s=row.given_s, on_event=watch)
    )
    if row.kills is not None:
        async with asyncio.timeout(GUARD_S):
            await going.wait()
        os.kill(process_of(row.kills, session.info.pid), row.by)
    return await executing


def process_of(what: str, sandbox: int) -> int:
    """Return the process of the kernel host, the display, the window manager or the browser; the first one of its name."""
    marks = {
        "host": "-m cellwright_kernel --settings",
        "Xvnc": "/Xvnc ",
        "openbox": "/openbox ",
        "chromium": "/chromium --",
    }
    found = [(pid, command) for pid, command in commands_of(descendants(sandbox)) if marks[what] in command]
    return min(pid for pid, command in found if not any(word in command for word in ("prlimit", "bwrap", "--type=")))


async def left_over(sandbox: int) -> list[str]:
    """Return the command lines of processes that are not the sandbox's own, once they had time to go."""
    own = ("cellwright_kernel", "/Xvnc ", "/openbox ", "chrom", "/playwright/driver/node", "bwrap")
    end = time.monotonic() + GONE_S
    while True:
        there = descendants(sandbox)
        running = alive(there)
        commands = [command for _, command in commands_of(running)]
        kernels = [command for command in commands if "-m cellwright_kernel." in command]
        left = [command for command in commands if not any(name in command for name in own)]
        left += kernels[2:]  # one of each language; copies of one that forked look like it
        if len(there - running) > MOST_DEAD:
            left.append(f"{len(there - running)} dead ones")
        if not left or time.monotonic() > end:
            return left
        await asyncio.sleep(0.05)


def commands_of(pids: Iterable[int]) -> list[tuple[int, str]]:
    found = []
    for pid in pids:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if command:
            found.append((pid, command))
    return found
