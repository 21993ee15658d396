"""A run read back: its cells, its status, its totals; and many runs listed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.record.conftest import PNG

from cellwright.errors import RunNotFound, UsageError
from cellwright.record import (
    Blobs,
    Journal,
    RunInfo,
    RunSummary,
    find_run,
    list_runs,
    new_run_id,
    read_run,
    runs_folder,
)
from cellwright.record.records import CellOpened, ModelResponse, Note
from cellwright.record.stored import INLINE_CHARS, StoredText, restored, stored
from cellwright.record.totals import Totals, messages_of, totals_of
from cellwright_kernel.wire import Cell, Text


def test_cell_is_read_back_as_it_was_closed(closed_run: Path, cell: Cell) -> None:
    run = read_run(closed_run)
    assert run.info.task == "Fill in the form"
    assert len(run.cells) == 1
    shown = Blobs.name(PNG + b"2")
    assert run.cells[0] == run.cell(1) == cell.model_copy(update={"screen_after": shown})
    assert run.stored_cells[0].late == (StoredText(text="late", source="stdout"),)
    with pytest.raises(RunNotFound, match="has no cell 2; it has 1"):
        run.cell(2)


def test_cell_without_end_is_still_running(tmp_path: Path, info: RunInfo, cell: Cell) -> None:
    journal = Journal.create(tmp_path / "run", info)
    journal.append(CellOpened.of(cell))
    journal.leave()
    [read] = read_run(tmp_path / "run").cells
    assert (read.status, read.outputs, read.duration_ms) == ("running", (), None)


def test_screen_after_a_cell_is_its_own_or_the_last_one_before(tmp_path: Path, info: RunInfo, cell: Cell) -> None:
    with Journal.create(tmp_path / "run", info) as journal:
        for number, status in enumerate(("ok", "ok", "ok", "sandbox_lost", "ok", "ok"), start=1):
            this = cell.model_copy(update={"number": number, "status": status})
            journal.append(CellOpened.of(this))
            journal.cell_closed(this)
            if number in {1, 5}:
                journal.screenshot(PNG + bytes([number]), after_cell=number)
            if number == 3:
                journal.append(Note(topic="screen", text="None could be taken.", cell=number))
    first, fifth = (Blobs.name(PNG + bytes([number])) for number in (1, 5))
    found = [stored.screen_after for stored in read_run(tmp_path / "run").stored_cells]
    assert found == [first, first, None, None, fifth, None]  # of the last one nobody knows: the session has no end


def test_status_seen_from_outside_is_not_marked_as_claimed(tmp_path: Path, info: RunInfo, cell: Cell) -> None:
    with Journal.create(tmp_path / "run", info) as journal:
        journal.cell_closed(cell)
        journal.cell_closed(cell, observed=("status", "rung"))
    claimed = [getattr(record, "claimed", None) for record in read_run(tmp_path / "run").records]
    assert claimed == [
        ("status", "outputs", "truncated", "rung", "kernel_generation"),
        ("outputs", "truncated", "kernel_generation"),
        None,
    ]


@pytest.mark.parametrize("length", [INLINE_CHARS, INLINE_CHARS + 1])
def test_long_text_stands_in_a_blob_and_comes_back(length: int) -> None:
    text = Text(text="ä" * length, source="log", of_cell=3, missing_chars=5)
    kept, blobs = stored(text, whole="ä" * 50_000)
    by_name = {__import__("hashlib").sha256(data).hexdigest(): data for data in blobs}
    assert isinstance(kept, StoredText)
    assert (kept.text_sha256 is None) == (length == INLINE_CHARS)
    assert kept.full_sha256 is not None
    assert by_name[kept.full_sha256] == "ä".encode() * 50_000
    assert restored(kept, by_name.__getitem__) == text


def test_totals_count_what_the_records_say(closed_run: Path) -> None:
    assert totals_of(read_run(closed_run)) == Totals(
        turns=1,
        cells=1,
        cells_by_status={"error": 1},
        cells_ms=1500,
        input_tokens=50,
        output_tokens=7,
        egress_allowed=2,
        egress_refused=41,
    )


@pytest.mark.parametrize("duration_ms", [2**53, 10**400], ids=["large", "larger"])
def test_record_of_a_duration_that_no_float_holds_is_none(tmp_path: Path, info: RunInfo, duration_ms: int) -> None:
    with Journal.create(tmp_path / "run", info) as journal:
        taken = ModelResponse(turn=1, response={}, duration_ms=1)
        journal.append(taken.model_copy(update={"duration_ms": duration_ms}))
    assert [record.type for record in read_run(tmp_path / "run").records] == ["run_closed"]


@pytest.mark.parametrize(
    "response", [None, [], {"output": None}, {"output": [1, {"type": "message"}]}, {"output": [{"content": [{}]}]}]
)
def test_response_of_another_shape_has_no_messages(response: object) -> None:
    assert list(messages_of(response)) == []  # type: ignore[arg-type]  # any shape must do


def test_refusal_is_told_apart() -> None:
    content = [{"type": "refusal", "refusal": "I will not."}, {"type": "output_text", "text": "Sorry."}]
    assert list(messages_of({"output": [{"type": "message", "content": content}]})) == [
        ("refusal", "I will not."),
        ("message", "Sorry."),
    ]


def test_list_tells_each_run_newest_first(closed_run: Path, info: RunInfo) -> None:
    root = closed_run.parent
    newer = info.model_copy(update={"run_id": "2026-11-30-000000-000000", "task": None, "model": None})
    live = Journal.create(root / newer.run_id, newer)
    (root / "not a run").mkdir()
    (root / "changed").mkdir()
    (root / "changed" / "run.json").write_text("{}")
    end = read_run(closed_run).end
    assert end is not None
    assert list_runs(root) == [
        RunSummary(
            run_id=newer.run_id,
            folder=str(root / newer.run_id),
            created_at=info.created_at,
            status="running",
            driver="loop",
        ),
        RunSummary(
            run_id=info.run_id,
            folder=str(closed_run),
            created_at=info.created_at,
            status="done",
            driver="loop",
            task=info.task,
            model=info.model,
            cells=1,
            last_cell_status="error",
            turns=1,
            ended_at=end.at,
        ),
    ]
    live.leave()
    assert list_runs(root)[0].status == "open"
    assert list_runs(root / "nowhere") == []


def test_end_is_found_behind_more_than_the_tail(tmp_path: Path, info: RunInfo) -> None:
    with Journal.create(tmp_path / "run", info) as journal:
        journal.append(Note(text="x" * 200_000))
    assert list_runs(tmp_path)[0].status == "done"


def test_list_tells_the_first_line_of_a_run_without_a_task(tmp_path: Path, info: RunInfo, cell: Cell) -> None:
    with Journal.create(tmp_path / "run", info.model_copy(update={"task": None})) as journal:
        journal.append(Note(text="Something came first."))
        for number, code in enumerate(("\n\n  1/0  # why\nlog(2)", "log(3)"), start=1):
            journal.append(CellOpened.of(cell.model_copy(update={"number": number, "code": code})))
    assert [summary.first_line for summary in list_runs(tmp_path)] == ["1/0  # why"]


@pytest.mark.parametrize("size", [10, 200_000])
def test_list_tells_how_the_last_cell_ended(tmp_path: Path, info: RunInfo, cell: Cell, size: int) -> None:
    """Also where that cell said more than the shorter tail holds."""
    outputs = tuple(Text(text="x" * (size // 20), source="log") for _ in range(20))
    journal = Journal.create(tmp_path / "run", info)
    journal.append(CellOpened.of(cell))
    assert [(summary.cells, summary.last_cell_status) for summary in list_runs(tmp_path)] == [(1, "running")]
    journal.cell_closed(cell.model_copy(update={"status": "timeout", "outputs": outputs}))
    assert [summary.last_cell_status for summary in list_runs(tmp_path)] == ["timeout"]
    journal.append(CellOpened.of(cell.model_copy(update={"number": 2})))
    journal.leave()
    crashed = [(summary.status, summary.cells, summary.last_cell_status) for summary in list_runs(tmp_path)]
    assert crashed == [("open", 2, None)]


def test_run_is_found_by_id_by_its_beginning_and_by_path(
    closed_run: Path, info: RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = closed_run.parent
    other = info.model_copy(update={"run_id": "2026-11-29-170000-ffffff"})
    Journal.create(root / other.run_id, other).leave()
    assert find_run(info.run_id, root) == closed_run
    assert find_run("2026-11-29-16", root) == closed_run
    assert find_run(str(closed_run), root / "elsewhere") == closed_run
    monkeypatch.chdir(closed_run)
    assert find_run(".", root) == Path()
    monkeypatch.chdir(root)
    assert find_run(info.run_id, root / "elsewhere") == Path(info.run_id)
    with pytest.raises(UsageError, match=r"2 runs begin with '2026-11-29'"):
        find_run("2026-11-29", root)
    for name in ("2027", "", "../runs/none", "/"):
        with pytest.raises(RunNotFound):
            find_run(name, root)


def test_run_ids_sort_by_age_and_differ() -> None:
    from datetime import UTC, datetime

    moment = datetime(2026, 11, 29, 16, 17, 24, tzinfo=UTC)
    ids = {new_run_id(moment) for _ in range(50)}
    assert len(ids) == 50
    assert {run_id[:18] for run_id in ids} == {"2026-11-29-161724-"}


def test_runs_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("CELLWRIGHT_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert runs_folder() == Path("/home/somebody/.local/state/cellwright/runs")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert runs_folder() == Path("/state/cellwright/runs")
    monkeypatch.setenv("CELLWRIGHT_STATE", "/own")
    assert runs_folder() == Path("/own/runs")
