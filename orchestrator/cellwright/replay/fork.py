"""A new run that shares another's record up to a cell.

Flows in: a run, and the number of a cell. Flows out: the folder of a new run, stopped right behind that cell, for `resume` to go
on with. Decided here: that the records are copied as they are, with their moments, and the blobs that they name; and where
the cut lies: behind all that came of the cell, without what the model was asked and said after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cellwright import __version__
from cellwright.conversation import RESULT, TASK, TOLD
from cellwright.counted import counted
from cellwright.errors import UsageError
from cellwright.meanwhile import RETRY
from cellwright.record import Journal, Run, new_run_id, runs_folder
from cellwright.record.records import (
    CellClosed,
    CellOpened,
    HistoryShortened,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    Note,
    PersonAnswered,
    Record,
    RunClosed,
    SessionClosed,
    SessionOpened,
)
from cellwright.record.run_info import Driver, RunInfo
from cellwright.record.verdict import blobs_of
from cellwright.secrets import Secrets
from cellwright.shortening import SUMMING_UP

_GOES_ON: Final = (CellOpened, SessionOpened, SessionClosed, RunClosed)
_OF_MODEL: Final = (ModelRequest, ModelResponse, ModelFailed, HistoryShortened)
"""What the model was asked and said next, and what was left out for it, stands between, while the cell's screen was taken."""
_TO_MODEL: Final = TOLD | {SUMMING_UP, RESULT, RETRY}
"""Topics of notes on what the model was told next."""


def fork(
    run: Run,
    at: int,
    *,
    secrets: Secrets,
    driver: Driver | None = None,
    task: str | None = None,
    model: str | None = None,
    runs: Path | None = None,
) -> Path:
    """Make the new run, and return its folder.

    Args:
        run: The other one.
        at: Number of the last cell that they share.
        secrets: Whose values the new one may not hold: its task is written before anything else of it.
        driver: Who sends the cells from now on; absent: who did.
        task: The new task; absent: the same.
        model: The new model's name; absent: the same.
        runs: Folder of the runs; absent: the user's own.

    Raises:
        JournalCorrupt: The other run is not as it was written.
        UsageError: It has no such cell, or that has no end.
        RecordError: The new one cannot be written.
    """
    run.must_be_whole()
    shared = _shared(run, at)
    info = RunInfo(
        run_id=new_run_id(),
        cellwright=__version__,
        driver=driver or run.info.driver,
        session_id=run.info.session_id,
        spec=run.info.spec,
        task=task or run.info.task,
        model=model or run.info.model,
        fork_of=run.info.run_id,
        at=at,
    )
    known = any(isinstance(record, Note) and record.topic == TASK for record in shared)
    first = () if run.info.task is None or known else (Note(topic=TASK, text=run.info.task),)
    journal = Journal.create((runs or runs_folder()) / info.run_id, info, secrets=secrets)
    try:
        for record in (*first, *shared):
            for sha256 in blobs_of(record):
                if not journal.keeps(sha256):
                    journal.blob(run.blobs.read(sha256))
            journal.append(record)
    finally:
        journal.leave()
    return journal.folder


def _shared(run: Run, at: int) -> tuple[Record, ...]:
    records = run.records
    ends = [place for place, record in enumerate(records) if isinstance(record, CellClosed) and record.number == at]
    if not ends:
        cells = len(run.stored_cells)
        why = f"has {counted(cells, 'cell')}" if at > cells else "has no end of that cell"
        raise UsageError(f"Run {run.info.run_id} cannot be forked at cell {at}: it {why}. Nothing was started.")
    end = ends[0] + 1
    until = next((place for place in range(end, len(records)) if isinstance(records[place], _GOES_ON)), len(records))
    between = records[end:until]
    asked = next((n for n, record in enumerate(between) if isinstance(record, ModelRequest)), len(between))
    kept = (one for n, one in enumerate(between) if not _is_of_model(one) and not (n > asked and _is_answer(one)))
    return (*records[:end], *kept)


def _is_of_model(record: Record) -> bool:
    """Whether it is what the model was asked, told or said."""
    return isinstance(record, _OF_MODEL) or (isinstance(record, Note) and record.topic in _TO_MODEL)


def _is_answer(record: Record) -> bool:
    """Whether it is an answer to a call, or the question that leads to one, where no cell was executed."""
    match record:
        case PersonAnswered(cell=None) | Note(topic="call") | Note(topic="question", cell=None):
            return True
        case _:
            return False
