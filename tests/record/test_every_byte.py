"""A run on a real disk that is cut, or changed, at each of its bytes; and a thousand runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.record import RunInfo, list_runs, read_run, verify

pytestmark = pytest.mark.slow


def test_cut_at_every_byte_keeps_all_whole_records(
    small_run: Path, with_journal: Callable[[Path, bytes], Path]
) -> None:
    data = (small_run / "journal.jsonl").read_bytes()
    everything = read_run(small_run).lines
    copy = with_journal(small_run, data)
    ends = [index + 1 for index, byte in enumerate(data) if byte == 0x0A]
    for cut in reversed(range(len(data))):
        os.truncate(copy / "journal.jsonl", cut)
        run = read_run(copy)
        whole = sum(end <= cut for end in ends)
        assert run.lines == everything[:whole]
        torn = cut - (ends[whole - 1] if whole else 0)
        what = f"is torn: {torn} bytes of it were written before the writer was stopped"
        assert [(p.kind, p.record, p.what) for p in run.problems] == ([("torn", whole + 1, what)] if torn else [])
        if cut % 10 == 0:
            assert verify(copy).status == "changed"  # the head counts more
            (copy / "head.json").rename(copy / "no head")
            verdict = verify(copy)
            (copy / "no head").rename(copy / "head.json")
            assert {problem.kind for problem in verdict.problems} <= {"torn"}
            assert (verdict.status, verdict.records) == ("open", whole)


def test_every_changed_byte_of_a_closed_run_is_found(small_run: Path) -> None:
    files = [path for path in sorted(small_run.rglob("*")) if path.is_file()]
    assert len(files) == 4
    for path in files:
        data = path.read_bytes()
        for index in range(len(data)):
            with path.open("r+b") as file:
                file.seek(index)
                file.write(bytes([data[index] ^ (0x01, 0x20, 0x80)[index % 3]]))
            verdict = verify(small_run)
            assert verdict.status == "changed", (path.name, index)
            assert verdict.problems[0].file in {str(path.relative_to(small_run)), "journal.jsonl", "run.json"}
            with path.open("r+b") as file:
                file.seek(index)
                file.write(data[index : index + 1])
        assert path.read_bytes() == data
    assert verify(small_run).status == "whole"


def test_thousand_runs_are_listed_within_a_second(closed_run: Path, info: RunInfo) -> None:
    for number in range(999):
        copy = info.model_copy(update={"run_id": f"2026-11-28-000000-{number:06x}", "task": None})
        folder = closed_run.parent / copy.run_id
        folder.mkdir()
        (folder / "run.json").write_text(copy.model_dump_json())
        (folder / "journal.jsonl").hardlink_to(closed_run / "journal.jsonl")
    began = time.process_time()  # not the wall clock: other tests may run beside it
    found = list_runs(closed_run.parent)
    assert time.process_time() - began < 1.0
    assert (len(found), {summary.status for summary in found}) == (1000, {"done"})
