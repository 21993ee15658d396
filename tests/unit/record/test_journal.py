"""The writer: what it leaves on disk, also when it is stopped or there is no room."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from cellwright.errors import JournalCorrupt, RecordError, RunFull
from cellwright.record import Journal, Keep, RunInfo, read_run, verify
from cellwright.record.records import CellOpened, ModelRequest, ModelResponse, Note, RunClosed
from cellwright_kernel.wire import Cell, Image, Text


def test_appended_record_is_on_disk_before_the_call_returns(tmp_path: Path, info: RunInfo) -> None:
    with Journal.create(tmp_path / "run", info) as journal:
        for number in range(1, 4):
            journal.append(Note(text=f"note {number}"))
            texts = [record.text for record in read_run(journal.folder).records if isinstance(record, Note)]
            assert texts == [f"note {count}" for count in range(1, number + 1)]


def test_every_record_names_the_hash_of_the_one_before(closed_run: Path) -> None:
    """The first one names `run.json`."""
    lines = [json.loads(line) for line in (closed_run / "journal.jsonl").read_bytes().splitlines()]
    run = read_run(closed_run)
    assert [line["n"] for line in lines] == list(range(1, 17))
    assert [line["previous"] for line in lines[1:]] == [line["hash"] for line in lines[:-1]]
    assert [line["hash"] for line in lines] == [line.hash for line in run.lines]
    assert json.loads((closed_run / "head.json").read_bytes())["last"] == lines[-1]["hash"]
    assert lines[0]["previous"] == json.loads((closed_run / "head.json").read_bytes())["run"]


def test_run_is_private_and_holds_no_value_of_the_environment(closed_run: Path) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (closed_run, *closed_run.rglob("*"))}
    blobs = {path.name for path in (closed_run / "blobs").iterdir()}
    assert {mode for name, mode in modes.items() if name in blobs} == {0o600}
    assert {name: mode for name, mode in modes.items() if name not in blobs} == {
        closed_run.name: 0o700,
        "blobs": 0o700,
        "head.json": 0o600,
        "journal.jsonl": 0o600,
        "run.json": 0o600,
    }
    data = (closed_run / "run.json").read_text()
    assert json.loads(data)["spec"]["env"] == ["TOKEN"]
    assert "a secret value" not in data


def test_lone_surrogates_are_read_back_as_they_were_written(tmp_path: Path, info: RunInfo) -> None:
    whole = "a\ud800" * 20_000
    cell = Cell(number=1, language="python", code="s = '\udc00'; s", started_at="t", status="ok", duration_ms=1)
    cell = cell.model_copy(update={"outputs": (Text(text="'\udc00'", source="result"), Text(text=whole, source="log"))})
    with Journal.create(tmp_path / "run", info) as journal:
        journal.append(CellOpened.of(cell))
        journal.cell_closed(cell)
    assert read_run(journal.folder).cell(1) == cell
    assert (journal.folder / "journal.jsonl").read_bytes().isascii()
    assert verify(journal.folder).status == "whole"


def test_hostile_values_in_a_response_can_always_be_written(tmp_path: Path, info: RunInfo) -> None:
    deep: object = "bottom"
    for _ in range(900):
        deep = [deep]
    response = {"deep": deep, "nan": float("nan"), "huge": 10**5000, "\udc00": None, "object": {1}}
    with Journal.create(tmp_path / "run", info) as journal:
        journal.append(ModelResponse(turn=1, response=response, duration_ms=1))
    [record, _] = read_run(journal.folder).records
    assert isinstance(record, ModelResponse)
    assert isinstance(record.response, dict)
    assert {name: value for name, value in record.response.items() if name != "deep"} == {
        "nan": "nan",
        "huge": hex(10**5000),
        "\\udc00": None,
        "object": "{1}",
    }
    assert str(record.response["deep"]) == "[" * 63 + "'[nested deeper than 64 levels: not kept]'" + "]" * 63


def test_threads_share_one_journal(tmp_path: Path, info: RunInfo) -> None:
    with Journal.create(tmp_path / "run", info) as journal:

        def write(name: int) -> None:
            for count in range(25):
                journal.append(Note(text=f"{name}/{count}"))

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    texts = [record.text for record in read_run(journal.folder).records if isinstance(record, Note)]
    assert sorted(texts) == sorted(f"{name}/{count}" for name in range(4) for count in range(25))
    assert verify(journal.folder).status == "whole"


def test_second_writer_is_refused_and_readers_are_not(tmp_path: Path, info: RunInfo) -> None:
    journal = Journal.create(tmp_path / "run", info)
    with pytest.raises(RecordError, match="is being written by another process"):
        Journal.reopen(journal.folder)
    with pytest.raises(RecordError, match="could not be written: File exists"):
        Journal.create(journal.folder, info)
    assert read_run(journal.folder).status == "running"
    journal.leave()
    assert read_run(journal.folder).status == "open"


def test_closed_journal_takes_no_more_records(tmp_path: Path, info: RunInfo) -> None:
    journal = Journal.create(tmp_path / "other", info, durable=True)
    journal.append(Note(text="waited for the disk"))
    journal.close("cancelled")
    journal.close("done")
    with pytest.raises(RecordError, match="The journal is closed"):
        journal.append(Note(text="too late"))
    assert [type(record) for record in read_run(journal.folder).records] == [Note, RunClosed]
    assert read_run(journal.folder).status == "cancelled"
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("sync")] == []


def test_bytes_beyond_the_ceilings_are_counted_and_not_kept(tmp_path: Path, info: RunInfo) -> None:
    def picture(data: bytes) -> Image:
        return Image(media_type="image/png", width=1, height=1, data=data)

    keep = Keep(cell_bytes=100, run_bytes=10_000)
    with Journal.create(tmp_path / "run", info, keep=keep) as journal:
        first = journal.store(picture(b"a" * 60), cell=1)
        again = journal.store(picture(b"a" * 60), cell=1)
        second = journal.store(picture(b"b" * 60), cell=1)
        third = journal.store(picture(b"c" * 60), cell=2)
        text = journal.store(Text(text="cut", source="log", missing_chars=70), cell=2, whole="d" * 73)
        cell = Cell(number=1, language="python", code="", started_at="t", status="ok", duration_ms=1)
        journal.append(CellOpened.of(cell))
        journal.cell_closed(cell.model_copy(update={"outputs": (picture(b"a" * 60), picture(b"b" * 60))}))
    assert [getattr(image, "kept", None) for image in (first, again, second, third)] == [True, True, False, True]
    assert text.model_dump() == {
        "type": "text",
        "text": "cut",
        "source": "log",
        "missing_chars": 70,
        "full_size_bytes": 73,
    }
    notice = "[image of 1x1, 60 bytes: not kept, the run was full]"
    assert read_run(journal.folder).cell(1).outputs == (picture(b"a" * 60), Text(text=notice, source="notice"))
    assert len(list((journal.folder / "blobs").iterdir())) == 2
    assert verify(journal.folder).status == "whole"


def test_in_a_run_that_is_full_nothing_is_begun_and_what_was_is_recorded(
    tmp_path: Path, info: RunInfo, cell: Cell
) -> None:
    """Blobs leave an eighth of the room to the journal; its own lines are counted like they are."""
    keep = Keep(run_bytes=16_000)
    with Journal.create(tmp_path / "run", info, keep=keep) as journal:
        kept = journal.keeps(journal.blob(b"a" * 14_001)), journal.keeps(journal.blob(b"b" * 14_000))
        journal.append(CellOpened.of(cell))
        while (journal.folder / "journal.jsonl").stat().st_size < 2_000:
            journal.append(Note(text="x" * 500))
        for begins in (CellOpened.of(cell), ModelRequest(turn=1, model="m")):
            with pytest.raises(RunFull, match=r"The run holds 0 MiB, as much as a run may\..*open a new session\."):
                journal.append(begins)
        journal.cell_closed(cell)
    assert kept == (False, True)
    kinds = [record.type for record in read_run(journal.folder).records]
    assert (kinds[0], kinds[-2:], kinds.count("cell_opened")) == ("cell_opened", ["cell_closed", "run_closed"], 1)
    assert verify(journal.folder).status == "whole"


@pytest.mark.parametrize(
    ("tail", "torn"),
    [
        pytest.param(b'{"x":"\xc3', b'{"x":"\xc3', id="inside a character"),
        pytest.param(b'{"x":1\n\n', b'{"x":1\n\n', id="followed by a blank line"),
        pytest.param(b'{"x":1\r\n \n', b'{"x":1\r\n \n', id="followed by a line of spaces"),
        pytest.param(b"\n\n", b"\n\n", id="blank lines only"),
        pytest.param(b"\0" * 4096, b"\0" * 4096, id="zeros after a power cut"),
    ],
)
def test_torn_end_is_cut_kept_and_noted(open_run: Path, tail: bytes, torn: bytes) -> None:
    before = (open_run / "journal.jsonl").read_bytes()
    (open_run / "journal.jsonl").write_bytes(before + tail)
    journal = Journal.reopen(open_run)
    assert journal.cells == 1
    journal.append(Note(text="went on"))
    journal.close("done")
    assert (open_run / "journal.jsonl").read_bytes().startswith(before)
    repair, went_on, _ = read_run(open_run).records[-3:]
    assert isinstance(repair, Note)
    assert isinstance(went_on, Note)
    assert repair.topic == "repair"
    assert repair.text == f"The last {len(torn)} bytes were a torn record: the writer had been stopped. They were cut."
    assert repair.sha256 is not None
    assert read_run(open_run).blobs.read(repair.sha256) == torn
    assert went_on.text == "went on"
    assert verify(open_run).status == "whole"


def test_changed_run_is_not_opened_for_more(open_run: Path) -> None:
    lines = (open_run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[4] = b"@@\n"
    (open_run / "journal.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(JournalCorrupt, match="record 5 does not end in its hash"):
        Journal.reopen(open_run)
    assert (open_run / "journal.jsonl").read_bytes() == b"".join(lines)


def test_run_can_go_on_after_its_end(closed_run: Path) -> None:
    """The head still seals the first part; the new end is not sealed until it is closed again."""
    journal = Journal.reopen(closed_run)
    journal.append(CellOpened(number=journal.cells + 1, language="python", code="2", started_at="t"))
    assert verify(closed_run).status == "open"
    journal.leave()
    assert read_run(closed_run).status == "open"
    with Journal.reopen(closed_run):
        pass
    assert verify(closed_run).status == "whole"
    end = read_run(closed_run).end
    assert end is not None
    assert (end.cells, end.turns) == (2, 1)
