"""What hangs without ending, in both languages: the X server, a page's process. A row is a cell and what is left after it.

It is as if it had been killed: one truthful sentence was said, the next cell works, and nothing is left in the process table.
The rows that use Tk come first: a process that has used it ends when it uses it again on another display.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.ladder import Row, Table, check_names, check_table

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

RENDERERS = ("pgrep", "-f", "type=renderer")
HUNG = (
    "The display did not answer for 3 s, as if it had been stopped or hung, and was ended. Every window that was open is gone. "
    "Display and browser were started again; windows and pages are closed."
)
NOT_FREED = (
    "After the last cell the page about:blank did not answer, and still did not after its JavaScript was told to stop. "
    "Usually its process was stopped, or hangs. So it was closed; the others are kept."
)

PYTHON = (
    Row(
        "a page whose process is stopped",
        f"import os, subprocess\nhung = await context.new_page(); await hung.title()\n"
        f"os.kill(max(map(int, subprocess.check_output({RENDERERS!r}).split())), 19); await hung.title()",
        "timeout",
        NOT_FREED,
        kept=True,
        rungs=("interrupt",),
        next="await (await context.new_page()).title(); await hung.close()",
        deadline_s=6,
    ),
    Row(
        "a window manager",
        "import time, tkinter; print('going'); time.sleep(1); window = tkinter.Tk()\nwhile True: window.update(); window.winfo_ismapped() and 1 / 0",
        "timeout",
        "The window manager had been stopped by a signal, so that no click arrived anywhere, and was ended. The windows are still there, "
        "but until it runs again without frames, and new ones may not get the keyboard. It was started again; windows and pages "
        "are as they were.",
        kept=True,
        rungs=("interrupt",),
        kills="openbox",
        by=signal.SIGSTOP,
        next="window.destroy()",
        deadline_s=3,  # Tk itself waits 2 s for the window manager, and sees no interrupt meanwhile
    ),
    Row(
        "an X server, in C",
        "import tkinter; window = tkinter.Tk(); window.update(); print('going')\nwhile True: window.winfo_pointerxy()",
        "timeout",
        HUNG,
        kept=False,
        rungs=("kill_kernel",),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="import tkinter; window = tkinter.Tk(); window.update(); window.destroy()",
    ),
    Row(
        "an X server, in a picture of the screen",
        "print('going')\nwhile True: screen.shot()",
        "timeout",
        HUNG,
        kept=True,
        rungs=("interrupt",),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="log(screen.shot().width); await page.title()",
    ),
    Row(
        "an X server, in a click",
        "print('going')\nwhile True: pyautogui.click(300, 300)",
        "timeout",
        HUNG,
        kept=True,
        rungs=("interrupt",),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="log(pyautogui.size().width); await page.title()",
    ),
    Row(
        "an X server, and nobody has asked it",
        "import time; print('going'); time.sleep(1.5)",
        "ok",
        HUNG,
        kept=True,
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="log(pyautogui.size().width); await page.title()",
    ),
)

JAVASCRIPT = (
    Row(
        "a page whose process is stopped",
        "globalThis.hung = await context.newPage(); await hung.title()\n"
        f"const renderers = require('child_process').execFileSync({RENDERERS[0]!r}, {list(RENDERERS[1:])!r}, {{ encoding: 'utf8' }})\n"
        "process.kill(Math.max(...renderers.trim().split(/\\s+/)), 'SIGSTOP'); await hung.title()",
        "timeout",
        NOT_FREED,
        kept=True,
        rungs=("interrupt",),
        next="await (await context.newPage()).title(); await hung.close()",
        deadline_s=6,
    ),
    Row(
        "a window manager",
        "console.log('going'); await new Promise(done => setTimeout(done, 60_000))",
        "timeout",
        "The window manager had been stopped by a signal, so that no click arrived anywhere, and was ended. The windows are still there, "
        "but until it runs again without frames, and new ones may not get the keyboard. It was started again; windows and pages "
        "are as they were.",
        kept=True,
        rungs=("interrupt",),
        kills="openbox",
        by=signal.SIGSTOP,
        next="await page.title()",
    ),
    Row(
        "an X server, in C",
        "console.log('going'); for (;;) require('child_process').execFileSync('setxkbmap', ['-query'])",
        "timeout",
        HUNG,
        kept=True,
        rungs=("interrupt", "kill_children"),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="require('child_process').execFileSync('setxkbmap', ['-query']); undefined",
    ),
    Row(
        "an X server, in a picture of the screen",
        "console.log('going'); for (;;) await screen.shot()",
        "timeout",
        HUNG,
        kept=True,
        rungs=("interrupt",),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="console.log((await screen.shot()).length); await page.title()",
    ),
    Row(
        "an X server, in a click",
        "console.log('going'); for (;;) await page.mouse.click(300, 300)",
        "timeout",
        HUNG,
        kept=True,
        rungs=("interrupt",),
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="await page.title()",
    ),
    Row(
        "an X server, and nobody has asked it",
        "console.log('going'); await new Promise(done => setTimeout(done, 1500))",
        "ok",
        HUNG,
        kept=True,
        kills="Xvnc",
        by=signal.SIGSTOP,
        next="await page.title()",
    ),
)

TABLE: Table = {"python": PYTHON, "javascript": JAVASCRIPT}


def test_both_languages_have_the_same_rows() -> None:
    check_names(TABLE)


async def test_what_hangs_is_ended_and_is_there_again(tmp_path: Path) -> None:
    await check_table(TABLE, tmp_path, sessions=2)
