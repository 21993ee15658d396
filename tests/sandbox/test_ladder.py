"""What only a rung of the ladder can stop, in a real sandbox and in both languages. One table: a row is a cell and what is left after it.

After each row one truthful sentence was said, the next cell works, and nothing of the cell's is left in the process table.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from tests.serving import alive, descendants

from cellwright.session import Session
from cellwright_kernel.wire import Cell, CellStatus, Event, Language, PieceEvent, Rung

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

DEADLINE_S = 2.0
ENDED_S = 4.5
"""Seconds after the deadline by which every cell is answered: the ladder's three, its grace, and the way."""
GONE_S = 5.0
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
    kills: Literal["host", "Xvnc", "chromium"] | None = None
    """What is killed from outside once it has said `going`."""
    next: str = ""
    """What the next cell does besides."""


KEPT = "variables set so far are kept"
GONE = "variables are gone"
INTERRUPTED: tuple[Rung, ...] = ("interrupt", "kill_children")
STUBBORN = "trap '' INT TERM; while :; do sleep 1; done"
BOMB = ":(){ :|:& };:; sleep 600"

PYTHON = (
    Row("an endless loop", "while True: pass", "timeout", KEPT, kept=True, rungs=("interrupt",)),
    Row("a C call that sees no signal", "sum(range(10**11))", "timeout", GONE, kept=False, rungs=("kill_kernel",)),
    Row(
        "a process that ignores signals",
        f'import subprocess; subprocess.run(["sh", "-c", "{STUBBORN}"])',
        "timeout",
        "Processes that were ended: `sh -c trap",
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a fork bomb of a shell",
        f'import subprocess; subprocess.run(["bash", "-c", "{BOMB}"])',
        "timeout",
        "Processes that were ended: `bash`",
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a fork bomb of the kernel's own",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "timeout",
        KEPT,
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a kernel that is stopped",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "timeout",
        GONE,
        kept=False,
        rungs=("kill_kernel",),
    ),
    Row("memory that cannot be had", "bytearray(10**15)", "error", "MemoryError", kept=True),
    Row(
        "an X server that is killed",
        "import time; print('going'); time.sleep(1.5)",
        "ok",
        "Display and browser were started again; windows and pages are closed.",
        kept=True,
        kills="Xvnc",
        next="log(pyautogui.size().width)",
    ),
    Row(
        "a Chromium that is killed",
        "import time; print('going'); time.sleep(1.5)",
        "ok",
        "chromium was ended by SIGKILL. Its pages are closed.",
        kept=True,
        kills="chromium",
        next="await page.title()",
    ),
    Row(
        "a kernel host that is killed",
        "import time; print('going'); time.sleep(60)",
        "sandbox_lost",
        "The sandbox was lost while this cell ran, and ended.",
        kept=False,
        rungs=("replace_sandbox",),
        kills="host",
    ),
)

WAIT = "console.log('going'); await new Promise(done => setTimeout(done, {ms}))"
JAVASCRIPT = (
    Row("an endless loop", "while (true) {}", "timeout", KEPT, kept=True, rungs=("interrupt",)),
    Row(
        "a C call that sees no signal",
        "require('crypto').pbkdf2Sync('a', 'b', 1e9, 64, 'sha512')",
        "timeout",
        GONE,
        kept=False,
        rungs=("kill_kernel",),
    ),
    Row(
        "a process that ignores signals",
        f'require("child_process").execSync("{STUBBORN}")',
        "timeout",
        "Processes that were ended: `/bin/sh -c trap",
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a fork bomb of a shell",
        f'require("child_process").execFileSync("bash", ["-c", "{BOMB}"])',
        "timeout",
        "Processes that were ended: `bash`",
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a fork bomb of the kernel's own",
        "const { spawn } = require('child_process')\n"
        "while (true) { try { spawn('sleep', ['600']).on('error', () => {}) } catch {} }",
        "timeout",
        KEPT,
        kept=True,
        rungs=INTERRUPTED,
    ),
    Row(
        "a kernel that is stopped",
        "process.kill(process.pid, 'SIGSTOP')",
        "timeout",
        GONE,
        kept=False,
        rungs=("kill_kernel",),
    ),
    Row("memory that cannot be had", "new ArrayBuffer(2 ** 52)", "error", "RangeError", kept=True),
    Row(
        "an X server that is killed",
        WAIT.format(ms=1500),
        "ok",
        "Display and browser were started again; windows and pages are closed.",
        kept=True,
        kills="Xvnc",
        next="await page.title()",
    ),
    Row(
        "a Chromium that is killed",
        WAIT.format(ms=1500),
        "ok",
        "chromium was ended by SIGKILL. Its pages are closed.",
        kept=True,
        kills="chromium",
        next="await page.title()",
    ),
    Row(
        "a kernel host that is killed",
        WAIT.format(ms=60_000),
        "sandbox_lost",
        "The sandbox was lost while this cell ran, and ended.",
        kept=False,
        rungs=("replace_sandbox",),
        kills="host",
    ),
)

TABLE: dict[Language, tuple[Row, ...]] = {"python": PYTHON, "javascript": JAVASCRIPT}
BEFORE: dict[Language, str] = {"python": "before = 1", "javascript": "globalThis.before = 1"}
LOOK: dict[Language, str] = {
    "python": "log('before' in globals())",
    "javascript": "console.log('before' in globalThis)",
}


def test_both_languages_have_the_same_rows() -> None:
    assert [row.name for row in PYTHON] == [row.name for row in JAVASCRIPT]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_every_rung_leaves_what_it_says(language: Language, tmp_path: Path) -> None:
    faults: list[str] = []
    async with Session.open(runs=tmp_path) as session:
        for row in TABLE[language]:
            faults += [f"{row.name}: {fault}" for fault in await faults_of(session, language, row)]
    assert not faults, "\n".join(faults)


async def faults_of(session: Session, language: Language, row: Row) -> list[str]:
    """Return what is not as the row says."""
    await session.execute(BEFORE[language], language=language)
    # the browser's helpers come and go; everything else that is there afterwards and was not before is the cell's
    began = time.monotonic()
    cell = await executed(session, language, row)
    took_s = time.monotonic() - began
    after = await session.execute(f"{row.next}\n{LOOK[language]}", language=language, deadline_s=30)
    found = [
        *([] if cell.status == row.status else [f"its status is {cell.status}"]),
        *([] if cell.rung in row.rungs else [f"its rung is {cell.rung}"]),
        *([] if row.says in cell.text + after.text else [f"it says {cell.text[-600:]!r}, then {after.text[-300:]!r}"]),
        *([] if took_s < DEADLINE_S + ENDED_S else [f"it took {took_s:.1f} s"]),
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

    deadline_s = DEADLINE_S if row.kills is None else 2 * DEADLINE_S
    executing = asyncio.ensure_future(
        session.execute(row.code, language=language, deadline_s=deadline_s, on_event=watch)
    )
    if row.kills is not None:
        async with asyncio.timeout(10):
            await going.wait()
        os.kill(process_of(row.kills, session.info.pid), signal.SIGKILL)
    return await executing


def process_of(what: str, sandbox: int) -> int:
    """Return the process of the kernel host, the display or the browser; the first one of its name."""
    marks = {"host": "-m cellwright_kernel --settings", "Xvnc": "/Xvnc ", "chromium": "/chromium --"}
    found = [(pid, command) for pid, command in commands_of(descendants(sandbox)) if marks[what] in command]
    return min(pid for pid, command in found if "prlimit" not in command and "bwrap" not in command)


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
