"""What only a rung of the ladder can stop, in a real sandbox and in both languages. One table: a row is a cell and what is left after it.

After each row one truthful sentence was said, the next cell works, and nothing of the cell's is left in the process table.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ladder import Row, Table, check_names, check_table

from cellwright_kernel.wire import Rung

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

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
        deadline_s=2,
    ),
    Row(
        "a fork bomb of a shell",
        f'import subprocess; subprocess.run(["bash", "-c", "{BOMB}"])',
        "timeout",
        "Processes that were ended: `bash`",
        kept=True,
        rungs=INTERRUPTED,
        deadline_s=2,
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
        deadline_s=2,
    ),
    Row(
        "a fork bomb of a shell",
        f'require("child_process").execFileSync("bash", ["-c", "{BOMB}"])',
        "timeout",
        "Processes that were ended: `bash`",
        kept=True,
        rungs=INTERRUPTED,
        deadline_s=2,
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

TABLE: Table = {"python": PYTHON, "javascript": JAVASCRIPT}


def test_both_languages_have_the_same_rows() -> None:
    check_names(TABLE)


async def test_every_rung_leaves_what_it_says(tmp_path: Path) -> None:
    await check_table(TABLE, tmp_path)
