"""Many runs, one line each.

Flows in: the runs folder. Flows out: a summary of each run. Decided here: that no more of a run is read than its
`run.json`, the journal's tail and, where nobody gave it a task, the journal's beginning up to the first cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cellwright.errors import JournalCorrupt, RunNotFound
from cellwright.record.chain import NotSealed, unseal
from cellwright.record.folder import read_info, run_names, runs_folder
from cellwright.record.lines import JOURNAL
from cellwright.record.lock import is_locked
from cellwright.record.reader import end_of, status_of
from cellwright.record.records import RECORD, CellClosed, CellOpened, Record, RunClosed
from cellwright.record.run_info import RunStatus
from cellwright.record.stored import Recorded
from cellwright_kernel.wire import CellStatus

_TAILS_BYTES: Final = (64 * 1024, 1024 * 1024)
"""How much of the end is read; the longer one only where the last cell said so much that it isn't in the shorter."""
_HEAD_BYTES: Final = 64 * 1024
"""Where the first cell must have begun."""
_LINE_BYTES: Final = 1024 * 1024
"""Longer than the record of a cell whose 64 KiB of code are all escapes."""
_FIRST_LINE_CHARS: Final = 200


class RunSummary(Recorded):
    """One line of the list of runs."""

    run_id: str
    folder: str
    created_at: str
    status: RunStatus
    """How the run ended, which says nothing of its cells: a run whose only cell failed is done."""
    driver: str
    task: str | None = None
    model: str | None = None
    cells: int | None = None
    """Absent when it could not be told from the journal's tail."""
    last_cell_status: CellStatus | None = None
    """How the last cell ended; absent when there is none, when a crash came first, and when the tail doesn't tell."""
    first_line: str | None = None
    """First line of the first cell's code, at most 200 characters; absent when there is a task, when no cell begins in the
    first 64 KiB of the journal, and when its code is blank."""
    turns: int | None = None
    """Absent when the run has no end."""
    ended_at: str | None = None
    """Absent when the run has no end."""


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """Return the runs in a folder (by default the runs folder), newest first; folders that hold no run are left out."""
    runs = root or runs_folder()
    summaries = []
    for name in run_names(runs):
        try:
            summaries.append(_summary(runs / name))
        except (RunNotFound, JournalCorrupt):
            continue
    return summaries


def _summary(folder: Path) -> RunSummary:
    _, info = read_info(folder)
    is_live = is_locked(folder / JOURNAL)
    tail = _tail(folder / JOURNAL)
    end = end_of(tail)
    seen = [record for record in tail if isinstance(record, CellOpened | CellClosed)]
    return RunSummary(
        run_id=info.run_id,
        folder=str(folder),
        created_at=info.created_at,
        status=status_of(end, is_live=is_live),
        driver=info.driver,
        task=info.task,
        model=info.model,
        cells=end.cells if end else max((record.number for record in seen), default=None),
        last_cell_status=_last_cell(seen, is_live=is_live),
        first_line=_first_line(folder / JOURNAL) if info.task is None else None,
        turns=end.turns if end else None,
        ended_at=end.at if end else None,
    )


def _last_cell(seen: Sequence[CellOpened | CellClosed], *, is_live: bool) -> CellStatus | None:
    match seen[-1:]:
        case [CellClosed(status=status)]:
            return status
        case [CellOpened()] if is_live:
            return "running"
        case _:
            return None


def _tail(path: Path) -> tuple[Record, ...]:
    """Return the last whole records, from the last one of a cell on."""
    records: tuple[Record, ...] = ()
    for size_bytes in _TAILS_BYTES:
        records, is_all = _last_records(path, size_bytes)
        end = end_of(records)
        if is_all or (end and not end.cells) or any(isinstance(record, CellOpened | CellClosed) for record in records):
            break
    return records


def _last_records(path: Path, size_bytes: int) -> tuple[tuple[Record, ...], bool]:
    """Return the last whole records of a journal, and whether there are no more."""
    try:
        with path.open("rb") as file:
            start = file.seek(max(0, file.seek(0, os.SEEK_END) - size_bytes))
            lines = file.read().split(b"\n")
    except OSError:
        return (), True
    records: list[Record] = []
    for line in reversed(lines[1 if start else 0 : -1]):
        if (record := _record(line)) is None:
            continue
        records.insert(0, record)
        if isinstance(record, CellOpened | CellClosed) or (isinstance(record, RunClosed) and not record.cells):
            break
    return tuple(records), start == 0


def _first_line(path: Path) -> str | None:
    opened = next((record for record in _first_records(path) if isinstance(record, CellOpened)), None)
    lines = opened.code.strip().splitlines() if opened else []
    return lines[0][:_FIRST_LINE_CHARS] if lines else None


def _first_records(path: Path) -> Iterator[Record]:
    try:
        with path.open("rb") as file:
            while file.tell() < _HEAD_BYTES and (line := file.readline(_LINE_BYTES)):
                if (record := _record(line.removesuffix(b"\n"))) is not None:
                    yield record
    except OSError:
        return


def _record(line: bytes) -> Record | None:
    """Return what a line holds; None when it isn't whole, or of a kind that this version doesn't know."""
    try:
        fields = unseal(line).body
        fields.pop("n", None), fields.pop("previous", None)
        return RECORD.validate_python(fields)
    except (NotSealed, ValueError):
        return None
