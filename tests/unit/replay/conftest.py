"""Runs to export, made by the real writer."""

from __future__ import annotations

import builtins
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.replay.stopped import Outside

from cellwright.record import Journal, RunInfo, read_run, recorded_spec, records
from cellwright.record.reader import Run
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, CellStatus, Image, Language, Output, Text

AT = "2026-11-29T16:17:24.000Z"
RUN_ID = "2026-11-29-161724-ab12cd"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDRand the rest"
HOSTILE = '\x1b[2J\x1b]0;title\x07<script>alert(1)</script><img src="http://a.example/x.png">```\u202e"\'\x00'
"""What moves a cursor, what is markup, what ends a fence, what reorders words."""


@pytest.fixture
def tmp_path(states: Path) -> Iterator[Path]:
    """In memory, as the runs of all unit tests are."""
    with tempfile.TemporaryDirectory(dir=states) as folder:
        yield Path(folder)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Run]:
    """Return a function that makes a run: of a task, and of what `fill` writes into its journal."""

    def made(fill: Callable[[Journal], None], *, task: str | None = "Add the rows up", run_id: str = RUN_ID) -> Run:
        return make_run(tmp_path, fill, task=task, run_id=run_id)

    return made


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Outside:
    """What cells reach outside of a fake sandbox; they know it by this name, and it knows the session that was opened last."""
    made = Outside()
    monkeypatch.setattr(builtins, "outside", made, raising=False)
    begin = Session.__init__

    def remembered(session: Session, *given: Any) -> None:
        begin(session, *given)
        made.session = session

    monkeypatch.setattr(Session, "__init__", remembered)
    return made


def make_run(
    root: Path, fill: Callable[[Journal], None], *, task: str | None = "Add the rows up", run_id: str = RUN_ID
) -> Run:
    info = RunInfo(
        run_id=run_id,
        created_at=AT,
        cellwright="0.1.0",
        driver="loop",
        session_id="s",
        spec=recorded_spec(Spec()),
        task=task,
    )
    journal = Journal.create(root / "runs" / run_id, info)
    fill(journal)
    journal.close("done", summary="It is 12.")
    return read_run(journal.folder)


def add_cell(
    journal: Journal, code: str, *outputs: Output, language: Language = "python", status: CellStatus = "ok"
) -> None:
    cell = Cell(
        number=journal.cells + 1,
        language=language,
        code=code,
        status=status,
        outputs=outputs,
        started_at=AT,
        duration_ms=1500,
    )
    journal.append(records.CellOpened.of(cell))
    journal.cell_closed(cell)


def fill(journal: Journal) -> None:
    """A file from outside, words of a model, and cells with an output of each kind."""
    sha256 = journal.blob(b"a,b\n")
    given = records.CopiedFile(path="rows.csv", size_bytes=4, sha256=sha256, kept=True)
    large = records.CopiedFile(path="large.bin", size_bytes=4, sha256="0" * 64)
    journal.append(records.SessionOpened(at=AT, session_id="s", ready_ms=1, files=(given, large)))
    response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": "I look at *them*."}]}]}
    journal.append(records.ModelResponse(at=AT, turn=1, response=response, duration_ms=1))
    picture = Image(media_type="image/png", width=4, height=3, data=PNG)
    add_cell(journal, "rows = [3, 4, 5]\nrows", Text(text="[3, 4, 5]", source="result"))
    add_cell(journal, "log(sum(rows)); display(page)", Text(text="12", source="log"), picture)
    journal.screenshot(PNG + b"2", after_cell=2)
    add_cell(journal, "console.log(6 * 7)", Text(text="42\n", source="stdout"), language="javascript")
    failure = Text(text="Traceback:\nValueError: no: really", source="error")
    add_cell(journal, "!ls\n1/0", Text(text="oh\n", source="stderr"), failure, status="error")
    journal.append(records.Note(at=AT, text="A note."))
