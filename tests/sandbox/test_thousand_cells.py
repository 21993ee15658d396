"""A long session: a thousand cells, Python and JavaScript in turns. No output is lost, and no process inside grows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serving import descendants

from cellwright.session import Session
from cellwright_kernel.wire import Image, Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

WARM_UP = 50
CELLS = 1000
GROWTH = 1.2
PROCESSES = {
    "Python kernel": b"-m\0cellwright_kernel.python\0",
    "JavaScript kernel": b"-m\0cellwright_kernel.javascript\0",
    "its Node": b"/javascript/runner.cjs\0",
    "kernel host": b"-m\0cellwright_kernel\0",
}


async def test_a_thousand_cells_in_turns_lose_nothing_and_grow_nothing() -> None:
    async with Session.open() as session:
        for number in range(1, WARM_UP + 1):
            await check_cell(session, number)
        before = resident_kb(session.info.pid)
        for number in range(WARM_UP + 1, WARM_UP + CELLS + 1):
            await check_cell(session, number)
        after = resident_kb(session.info.pid)
    assert {name for name, size in after.items() if size > GROWTH * before[name]} == set(), f"{before} -> {after}"


async def check_cell(session: Session, number: int) -> None:
    """Execute a cell that says its number in every way there is, and uses the page now and then."""
    language, code = python(number) if number % 2 else javascript(number)
    cell = await session.execute(code, language=language)
    said = [
        (output.width, output.height) if isinstance(output, Image) else (output.source, output.text, output.of_cell)
        for output in cell.outputs
    ]
    picture = [(number % 7 + 1, 1)] if number % 2 else []
    expected = [
        ("log", f"{number}", None),
        ("stdout", f"out {number}\n", None),
        *picture,
        ("result", f"{number}", None),
    ]
    assert (cell.number, cell.status, said) == (number, "ok", expected)


def python(number: int) -> tuple[Language, str]:
    page = "await page.title()\n" if number % 10 == 1 else ""
    return "python", (
        f"from PIL import Image\n{page}rows = [{{'n': n}} for n in range({number})]\nlog(len(rows))\n"
        f"print('out', {number})\ndisplay(Image.new('RGB', ({number % 7 + 1}, 1)))\n{number}"
    )


def javascript(number: int) -> tuple[Language, str]:
    page = "await page.title()\n" if number % 10 == 2 else ""
    return "javascript", (
        f"{page}const rows = Array.from({{ length: {number} }}, (_, n) => ({{ n }}))\nconsole.log(rows.length)\n"
        f"process.stdout.write('out {number}\\n')\n{number}"
    )


def resident_kb(sandbox: int) -> dict[str, int]:
    """Resident memory of each process of interest below a sandbox."""
    found: dict[str, int] = {}
    for pid in descendants(sandbox):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        for name, part in PROCESSES.items():
            if part in command and not command.startswith((b"bwrap", b"/usr/bin/bwrap", b"/usr/bin/prlimit")):
                found[name] = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert found.keys() == PROCESSES.keys(), found
    return found
