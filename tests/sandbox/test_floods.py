"""Code that says things faster than they can be read, in a real sandbox and in both languages. One table: a row is a cell.

It stops at its first interrupt and keeps its variables, and where it ends by itself before its deadline it is sound.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.ladder import BEFORE, LOOK, Row, Table, check_rows

from cellwright.session import Session
from cellwright_kernel.wire import Cell, Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

KEPT = "variables set so far are kept"
OF_CHILDREN = "yes | head -100000"


def endless(name: str, code: str, *, children: bool = False) -> Row:
    rungs = ("interrupt", "kill_children") if children else ("interrupt",)
    return Row(name, code, "timeout", KEPT, kept=True, rungs=rungs)


PYTHON = (
    endless("logs", "while True: log(1)"),
    endless("prints", "i = 0\nwhile True: print(i); i += 1"),
    endless("two streams", "import sys\nwhile True: print(1); print(2, file=sys.stderr)"),
    endless("shown texts", "while True: display(1)"),
    endless("pictures", "from PIL import Image\npicture = Image.new('RGB', (2, 2))\nwhile True: display(picture)"),
    endless("logs of tasks", "import asyncio\nwhile True: log(1); await asyncio.sleep(0)"),
    endless("children that write", f"import os\nwhile True: os.system('{OF_CHILDREN}')", children=True),
    Row("logs that end", "for i in range(40_000): log(i)", "ok", "39999", kept=True),
)
JAVASCRIPT = (
    endless("logs", "for (;;) console.error('e')"),
    endless("prints", "for (let i = 0; ; i++) process.stdout.write(`${i}`)"),
    endless("two streams", "for (;;) { process.stdout.write('a'); process.stderr.write('b') }"),
    endless("shown texts", "for (;;) display(1)"),
    endless(
        "rejections",
        "for (;;) { for (let i = 0; i < 1000; i++) Promise.reject(1); await new Promise(done => setTimeout(done)) }",
    ),
    endless("logs of tasks", "for (let i = 0; ; i++) { console.log(i); await new Promise(done => setTimeout(done)) }"),
    endless(
        "children that write",
        f"for (;;) require('child_process').execSync('{OF_CHILDREN}', {{ stdio: 'inherit' }})",
        children=True,
    ),
    Row("logs that end", "for (let i = 0; i < 40_000; i++) console.log(i)", "ok", "39999", kept=True),
)
TABLE: Table = {"python": PYTHON, "javascript": JAVASCRIPT}

THREAD: dict[Language, str] = {
    "python": "import threading\ndef flood():\n    while True: {}\nthreading.Thread(target=flood, daemon=True).start()",
    "javascript": "setInterval(() => {{ for (let i = 0; i < 2000; i++) {} }}, 1); undefined",
}
SAID: dict[Language, tuple[str, ...]] = {
    "python": ("log(3)", "print(3)", "display(3)"),
    "javascript": ("console.log(3)", "process.stdout.write('3')"),
}


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_code_that_says_more_than_is_read_stops_at_an_interrupt_and_keeps_its_variables(
    language: Language, tmp_path: Path
) -> None:
    await check_rows(TABLE, language, tmp_path)


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_cell_is_heard_beside_what_an_earlier_one_says_without_end(language: Language, tmp_path: Path) -> None:
    mine = {"python": "log({})", "javascript": "console.log({})"}[language]
    waits = {"python": "import time; time.sleep(1)", "javascript": "await new Promise(done => setTimeout(done, 1000))"}
    found = []
    async with Session.open(runs=tmp_path) as session:
        for said in SAID[language]:
            await session.execute(THREAD[language].format(said), language=language)
            await session.execute(waits[language], language=language)
            for number in (4, 5):
                cell = await session.execute(mine.format(number), language=language, deadline_s=10)
                own = [output.text for output in cell.outputs if output.type == "text" and output.of_cell is None]
                found.append((said, cell.status, own[0]))
            await session.restart(language)
    assert found == [(said, "ok", number) for said in SAID[language] for number in "45"]


FORGOTTEN: dict[Language, str] = {
    "python": "import subprocess\nflood = subprocess.Popen(['yes'])",
    "javascript": "var children = await import('node:child_process'); var flood = children.spawn('yes', { stdio: 'inherit' })",
}
BESIDE: dict[Language, str] = {
    "python": "import os, time\ntime.sleep(1)\nos.system('echo child')\nlog('OWN')",
    "javascript": "await new Promise(done => setTimeout(done, 1000)); "
    "children.execSync('echo child', { stdio: 'inherit' }); console.log('OWN')",
}
END: dict[Language, str] = {"python": "flood.kill()\nflood.wait()", "javascript": "flood.kill()"}
ITS_OWN_S = 1.0
KEPT_MIB = 6
"""Of each flood: 4 MiB after its cell has ended, and what it had said by then."""


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_process_that_was_forgotten_and_writes_without_end_costs_the_next_cells_nothing(
    language: Language, tmp_path: Path
) -> None:
    async with Session.open(runs=tmp_path) as session:
        await session.execute(BEFORE[language], language=language)
        forgotten = set()
        for _ in range(2):
            began = await session.execute(FORGOTTEN[language], language=language)
            forgotten.add(began.number)
            beside = await session.execute(BESIDE[language], language=language, deadline_s=6)
            assert beside.status == "ok"
            own = "".join(out.text for out in beside.outputs if out.of_cell is None and out.source in ("stdout", "log"))
            assert own == "child\nOWN"
            late = {out.of_cell for out in beside.outputs} - {None}  # what the first one left is read at its own pace
            assert began.number in late <= forgotten
            assert beside.duration_ms < 1000 * (2 * ITS_OWN_S)
            ended = await session.execute(END[language], language=language, deadline_s=6)
            assert (ended.status, ended.duration_ms < 1000 * ITS_OWN_S) == ("ok", True)
        assert (await session.execute(LOOK[language], language=language)).text.splitlines()[-1].lower() == "true"
        written = sum(file.stat().st_size for file in session.run_dir.rglob("*") if file.is_file())
    assert written < 2 * KEPT_MIB * 1024**2


BYTES = 7_000_000
FINITE: dict[Language, str] = {
    "python": f"import subprocess\nflood = subprocess.Popen('yes | head -c {BYTES}', shell=True)",
    "javascript": "var children = await import('node:child_process'); "
    f"var flood = children.spawn('sh', ['-c', 'yes | head -c {BYTES}'], {{ stdio: 'inherit' }}); "
    "var over = new Promise(done => flood.on('exit', done)); undefined",
}
OVER: dict[Language, str] = {"python": "flood.wait()", "javascript": "await over"}
PAUSE: dict[Language, str] = {
    "python": "import time; time.sleep(1.5)",
    "javascript": "await new Promise(done => setTimeout(done, 1500))",
}


async def test_what_a_forgotten_process_writes_is_counted_to_the_last_character_and_it_comes_to_its_end(
    tmp_path: Path,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        for language in FINITE:
            tasks.create_task(check_counted(language, tmp_path))


async def check_counted(language: Language, tmp_path: Path) -> None:
    async with Session.open(runs=tmp_path) as session:
        began = await session.execute(FINITE[language], language=language)
        cells = [
            began,
            await session.execute(OVER[language], language=language, deadline_s=20),
            await session.execute(PAUSE[language], language=language),
            await session.execute(PAUSE[language], language=language),
        ]
    assert [cell.status for cell in cells] == ["ok"] * len(cells)
    assert sum(said_by(cell, began.number) for cell in cells) == BYTES


def said_by(cell: Cell, number: int) -> int:
    """Count the characters that a cell's answer shows of another one's streams, and says are left out of them."""
    of_cell = None if cell.number == number else number
    count = 0
    for output in cell.outputs:
        if output.type == "text" and output.of_cell == of_cell and output.source == "stdout":
            found = re.search(r" of ([\d,]+) characters are left out", output.text)
            count += int(found[1].replace(",", "")) if found else len(output.text)
        elif output.type == "text" and (found := re.search(r"with ([\d,]+) characters? that came late", output.text)):
            count += int(found[1].replace(",", ""))
    return count
