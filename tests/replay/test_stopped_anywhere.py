"""A run that is stopped at any of its records, and again at any of those that come then, comes to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.replay.stopped import Outside, Playing, cut, entered, resumed, turns, whole_run

from cellwright.record import read_run, verify
from cellwright.record.records import RequestSent
from cellwright.replay.plan import Rerun

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rerun", ["all", "safe", "recorded"])
async def test_run_that_is_killed_after_any_record_comes_to_its_end(
    outside: Outside, tmp_path: Path, rerun: Rerun
) -> None:
    script = turns()
    whole = await whole_run(outside, script)
    count = len((whole.run_dir / "journal.jsonl").read_bytes().splitlines())
    for records in range(count):
        for torn in (False, True):
            folder = tmp_path / f"{records}-{torn}"
            left = cut(whole.run_dir, folder, records, torn=torn)
            outside.done = entered(left)
            outcome = await resumed(folder, Playing(script), rerun)
            assert (outcome.status, outcome.summary) == ("done", "All is entered."), records
            assert len(set(outside.done)) == len(outside.done), "something was entered twice"
            if rerun == "all":
                assert outside.done == [1, 2, 3], records
            run = read_run(folder)
            assert run.status == "done"
            assert [cell.opened.number for cell in run.stored_cells] == list(range(1, len(run.stored_cells) + 1))
            assert all(cell.closed is not None for cell in run.stored_cells)
            assert verify(folder).status == "whole"


async def test_every_crash_may_be_followed_by_another_in_the_run_that_goes_on(outside: Outside, tmp_path: Path) -> None:
    script = turns()
    whole = await whole_run(outside, script)
    middle = next(n for n, one in enumerate(read_run(whole.run_dir).records) if isinstance(one, RequestSent)) + 1
    first = tmp_path / "first"
    outside.done = entered(cut(whole.run_dir, first, middle))
    again = await resumed(first, Playing(script), "all")
    count = len((again.run_dir / "journal.jsonl").read_bytes().splitlines())
    seen = set()
    for records in range(middle, count):
        folder = tmp_path / str(records)
        outside.done = entered(cut(first, folder, records))
        seen.add(tuple(outside.done))
        outcome = await resumed(folder, Playing(script), "all")
        assert (outcome.status, outside.done) == ("done", [1, 2, 3]), records
        written = (folder / "journal.jsonl").read_bytes().splitlines()
        assert entered([json.loads(line) for line in written]) == [1, 2, 3], records
    assert seen == {(1,), (1, 2), (1, 2, 3)}
