"""Clicks on a real desktop: those that change nothing count, those that change the screen do not, whatever their code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellwright.budget import Budget
from cellwright.loop import Outcome, run
from cellwright.record import read_run
from cellwright.record.records import Note
from cellwright.testing.model import ScriptedModel, calls, says

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

_PAGE = """\
await page.set_content('<body style="font-size: 60px"><p id=n onclick="{what}">0</p></body>')
await page.mouse.move(20, 60)
screen.settle()"""
_COUNTS = "this.textContent = Number(this.textContent) + 1"


async def clicked(what: str, clicks: int, runs: Path) -> Outcome:
    """Click on a page so often; each cell's code is another one, and none shows anything."""
    turns = [calls(f"await page.click('#n')  # {n}\nscreen.settle();") for n in range(clicks)]
    model = ScriptedModel([calls(_PAGE.format(what=what)), *turns, says("Done.")])
    return await run("Click.", model=model, budget=Budget(turns=50), runs=runs)


def told(outcome: Outcome) -> list[str]:
    notes = [one for one in read_run(outcome.run_dir).records if isinstance(one, Note) and one.topic == "stuck"]
    return [note.text.partition(".")[0] for note in notes]


async def test_clicks_without_any_effect_end_the_run_and_clicks_that_count_do_not(tmp_path: Path) -> None:
    nothing, counting = await asyncio.gather(clicked("", 14, tmp_path), clicked(_COUNTS, 14, tmp_path))
    assert nothing.status == "stuck"
    assert told(nothing) == [
        "The screen is as it was before the last 3 cells that used pointer, keyboard or page",
        "The screen is as it was before the last 5 cells that used pointer, keyboard or page",
    ]
    assert (counting.status, counting.cells, told(counting)) == ("done", 15, [])
