"""What a cell says after it has ended, with the real kernels of both languages: in the journal it has its cell's number."""

from __future__ import annotations

import asyncio

import pytest
from tests.waiting import GUARD_S

from cellwright.record.reader import read_run
from cellwright.record.records import CellClosed, LateOutput, Screen, SessionOpened
from cellwright.record.verdict import verify
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

JAVASCRIPT = "setTimeout(() => { console.log('late'); require('fs').writeFileSync('said.js', '') }, 300); undefined"
PYTHON = """
import pathlib, threading
def later():
    log('late'); print('printed'); log('.'); pathlib.Path('said.py').touch()
threading.Timer(0.6, later).start()
"""


async def test_late_output_is_recorded_under_its_cells_number_with_a_later_cell_and_without() -> None:
    async with Session.open() as session:
        await session.execute(PYTHON)
        shown = await session.execute("import time\nwhile not pathlib.Path('said.py').exists(): time.sleep(0.05)")
        await session.execute("pathlib.Path('said.py').unlink()")
        await session.execute(JAVASCRIPT, language="javascript")
        await session.execute(PYTHON)
        async with asyncio.timeout(GUARD_S):
            while {"said.js", "said.py"} - {file.path for file in await session.list_files()}:  # noqa: ASYNC110 - the sandbox makes it so
                await asyncio.sleep(0.05)
    run = read_run(session.run_dir)
    late = [[(output.source, output.text) for output in cell.late] for cell in run.stored_cells]
    of_python = [("log", "late"), ("stdout", "printed\n"), ("log", ".")]
    assert late == [of_python, [], [], [("log", "late")], of_python]
    # the first cell's stands where the model was shown it, the others' after all cells
    assert [(one.of_cell, one.text) for one in shown.outputs][:3] == [(1, text) for _, text in of_python]
    assert sorted(record.of_cell for record in run.records if isinstance(record, LateOutput)) == [4, 5]
    kinds = [type(record) for record in run.records]
    assert kinds.index(LateOutput) > max(place for place, kind in enumerate(kinds) if kind is CellClosed)
    assert verify(session.run_dir).status == "whole"


async def test_the_run_says_what_its_sandbox_ran_on_and_what_was_on_its_screen() -> None:
    async with Session.open() as session:
        python = await session.execute("import platform; log(platform.python_version())")
        browser = await session.execute("log(browser.version)")
        node = await session.execute("console.log(process.versions.node)", language="javascript")
    records = read_run(session.run_dir).records
    (opened,) = [record for record in records if isinstance(record, SessionOpened)]
    versions = dict(opened.versions)
    assert versions.pop("playwright").startswith("1.")
    assert versions == {"python": python.text, "chromium": browser.text, "node": node.text}
    assert 100 < opened.ready_ms < 30_000
    screens = [record for record in records if isinstance(record, Screen)]
    assert screens
    assert {len(record.pixels_sha256 or "") for record in screens} == {64}
