"""Memory that is used up, in both languages: by the kernel, by what a cell starts, by a page. A row is a cell and what is left after it.

What a process may have holds everywhere; what the sandbox may have as a whole, only where a control group can be made.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.ladder import Row, Table, check_names, check_table

from cellwright.sandbox.base import Limits, Spec

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

MEMORY = Spec(limits=Limits(memory_bytes=1536 * 1024**2))
NO_MORE = "got no more memory: one process may have 768 MiB here"
REACHED = "The sandbox's memory limit of 1.5 GiB was reached (peak 1.5 GiB), and "
BROWSERS_OWN = (
    "The browser's memory limit of 768 MiB was reached, or the sandbox's of 1.5 GiB, and a process was killed"
)
HOG = "blocks = []\nwhile True: blocks.append(bytearray(50_000_000))"
HOLD = "import time; block = bytearray(150_000_000); time.sleep(2)"
PAGE = (
    "async () => { window.blocks = []; for (let n = 0; n < 56; n++) {"
    " blocks.push(new Uint8Array(25e6).fill(1)); await new Promise(done => setTimeout(done, 5)) } return 'held all' }"
)
OUT_OF_MEMORY: Table = {
    "python": (
        Row("all memory", HOG, "error", NO_MORE, kept=True, next="del blocks", deadline_s=30),
        Row(
            "small things without end",
            "things = []\nwhile True: things.append([0] * 10)",
            "error",
            NO_MORE,
            kept=True,
            next="del things",
            deadline_s=30,
        ),
        Row(
            "a library's arrays",
            "import numpy\narrays = []\nwhile True: arrays.append(numpy.ones(5_000_000))",
            "error",
            NO_MORE,
            kept=True,
            next="del arrays",
            deadline_s=30,
        ),
        Row(
            "a process that takes all memory",
            f"import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {HOG!r}], stderr=-1, text=True).stderr)",
            "ok",
            "MemoryError",
            kept=True,
            deadline_s=30,
        ),
        Row(
            "processes that take all memory together",
            "import subprocess, sys\n"
            f"held = [subprocess.Popen([sys.executable, '-c', {HOLD!r}]) for _ in range(10)]\n"
            "print('killed' if any([process.wait() for process in held]) else 'held all')",
            "ok",
            REACHED,
            kept=True,
            deadline_s=30,
            without_group="held all",
        ),
        Row(
            "a page that takes all memory",
            f"try: print(await page.evaluate({PAGE!r}))\nexcept Exception as error: print(error)",
            "ok",
            BROWSERS_OWN,
            kept=True,
            deadline_s=30,
            next="await page.goto('about:blank')",
            without_group="held all",
        ),
    ),
    "javascript": (
        Row(
            "all memory",
            "globalThis.blocks = []; while (true) blocks.push(new Uint8Array(50e6).fill(1))",
            "error",
            NO_MORE,
            kept=True,
            next="delete globalThis.blocks",
            deadline_s=30,
        ),
        Row(
            "small things without end",
            "globalThis.things = []; while (true) things.push({ a: [1, 2, 3] })",
            "kernel_died",
            "Node ended because its heap was full",
            kept=False,
            deadline_s=60,
        ),
        Row(
            "a library's arrays",
            "globalThis.arrays = []; while (true) arrays.push(Buffer.alloc(40e6, 1))",
            "error",
            NO_MORE,
            kept=True,
            next="delete globalThis.arrays",
            deadline_s=30,
        ),
        Row(
            "a process that takes all memory",
            # what is spawned so is looked at every half second, and then counts as what is to be killed first
            f"const hog = 'import time; time.sleep(1.5)\\n' + {json.dumps(HOG)}\n"
            "console.log(require('child_process').spawnSync('python', ['-c', hog]).stderr.toString())",
            "ok",
            REACHED,
            kept=True,
            deadline_s=30,
            without_group="MemoryError",
        ),
        Row(
            "processes that take all memory together",
            "const { spawn } = require('child_process')\n"
            f"const held = [...Array(10)].map(() => spawn('python', ['-c', {json.dumps(HOLD)}]))\n"
            "const ends = held.map(one => new Promise(done => one.on('exit', (code, signal) => done(signal))))\n"
            "console.log((await Promise.all(ends)).some(Boolean) ? 'killed' : 'held all')",
            "ok",
            REACHED,
            kept=True,
            deadline_s=30,
            without_group="held all",
        ),
        Row(
            "a page that takes all memory",
            f"try {{ console.log(await page.evaluate({PAGE})) }} catch (error) {{ console.log(error.message) }}",
            "ok",
            BROWSERS_OWN,
            kept=True,
            deadline_s=30,
            next="await page.goto('about:blank')",
            without_group="held all",
        ),
    ),
}


def test_both_languages_have_the_same_rows() -> None:
    check_names(OUT_OF_MEMORY)


async def test_memory_that_is_used_up_leaves_what_is_said(tmp_path: Path) -> None:
    await check_table(OUT_OF_MEMORY, tmp_path, MEMORY)
