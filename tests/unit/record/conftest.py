"""A small run of every kind of record, made by the real writer.

It lies in memory: of some five hundred fsyncs each takes 1 ms on an idle disk, and 7 ms on one that others use too. The same runs on a
real disk are in `tests/record`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.record import Journal, RunInfo, recorded_spec, records
from cellwright.record.stored import digest_of
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Cell, Image, Text

AT = "2026-11-29T16:17:24.000Z"
RUN_ID = "2026-11-29-161724-ab12cd"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x05\xa0\x00\x00\x03\xe8rest of a picture"


@pytest.fixture
def tmp_path(states: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=states) as folder:
        yield Path(folder)


@pytest.fixture
def info() -> RunInfo:
    spec = recorded_spec(Spec(env={"TOKEN": "a secret value"}, allow=("127.0.0.1:8000",)))
    return RunInfo(
        run_id=RUN_ID,
        created_at=AT,
        cellwright="0.1.0",
        driver="loop",
        session_id="s1",
        spec=spec,
        task="Fill in the form",
        model="gpt-6-astra",
    )


@pytest.fixture
def cell() -> Cell:
    return Cell(
        number=1,
        language="python",
        code="s = '\udc00'\nprint('hi')\n",
        status="error",
        outputs=(
            Text(text="hi", source="stdout"),
            Image(media_type="image/png", width=1440, height=1000, data=PNG),
            Text(text="ValueError: no", source="error", missing_chars=3),
        ),
        truncated=True,
        rung="interrupt",
        started_at=AT,
        duration_ms=1500,
    )


@pytest.fixture
def fill(cell: Cell) -> Callable[[Journal], None]:
    """Append one record of each kind, but for the end."""

    def fill(journal: Journal) -> None:
        item = {"type": "function_call_output", "call_id": "c1", "output": "x"}
        journal.append(
            records.SessionOpened(
                at=AT,
                session_id="s1",
                ready_ms=1800,
                versions={"python": "3.13.5"},
                files=(records.CopiedFile(path="a.csv", size_bytes=3),),
            )
        )
        journal.append(records.ModelRequest(at=AT, turn=1, model="gpt-6-astra", input=(digest_of(item),)))
        journal.append(records.ModelFailed(at=AT, turn=1, reason="The server was busy.", http_status=503))
        response = {
            "output": [
                {"type": "message", "phase": "commentary", "content": [{"type": "output_text", "text": "Look"}]}
            ],
            "usage": {"input_tokens": 50, "output_tokens": 7},
            "error": None,
        }
        journal.append(records.ModelResponse(at=AT, turn=1, response=response, duration_ms=900))
        journal.append(records.CellOpened.of(cell, turn=1, call_id="c1"))
        asked = {"method": "CONNECT", "host": "example.org", "port": 443, "started_at": AT, "duration_ms": 3}
        journal.append(records.Egress(at=AT, allowed=False, sent_bytes=90, received_bytes=0, **asked))
        journal.cell_closed(cell)
        late = journal.store(Text(text="late", source="stdout"), cell=1)
        journal.append(records.LateOutput(at=AT, of_cell=1, outputs=(late,)))
        journal.screenshot(PNG + b"2", after_cell=1)
        journal.append(records.KernelRestarted(at=AT, language="python"))
        sha256 = journal.blob(b"a file")
        journal.append(records.FileWritten(at=AT, path="a.txt", sha256=sha256, size_bytes=6, kept=True))
        journal.append(records.FileDeleted(at=AT, path="a.txt"))
        journal.append(records.EgressMore(at=AT, cell=1, allowed=2, refused=40))
        journal.append(records.Note(at=AT, text="A note."))
        journal.append(records.SessionClosed(at=AT, session_id="s1"))

    return fill


@pytest.fixture
def open_run(tmp_path: Path, info: RunInfo, fill: Callable[[Journal], None]) -> Path:
    """A run whose writer went away without an end."""
    journal = Journal.create(tmp_path / "runs" / RUN_ID, info)
    fill(journal)
    journal.leave()
    return journal.folder


@pytest.fixture
def closed_run(tmp_path: Path, info: RunInfo, fill: Callable[[Journal], None]) -> Path:
    """A run that was closed."""
    journal = Journal.create(tmp_path / "runs" / RUN_ID, info)
    fill(journal)
    journal.close("done", summary="All is filled in.")
    return journal.folder


@pytest.fixture
def small_run(tmp_path: Path, info: RunInfo, cell: Cell) -> Path:
    """A closed run of one cell with one picture: small enough to try something at each of its bytes."""
    journal = Journal.create(tmp_path / "runs" / RUN_ID, info)
    journal.append(records.CellOpened.of(cell))
    journal.cell_closed(cell)
    journal.close("done")
    return journal.folder


@pytest.fixture
def with_journal(tmp_path: Path) -> Callable[[Path, bytes], Path]:
    """Return a function that copies a run and gives the copy another journal."""

    def with_journal(run: Path, data: bytes) -> Path:
        copy = tmp_path / "copy" / run.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        (copy / "journal.jsonl").write_bytes(data)
        return copy

    return with_journal
