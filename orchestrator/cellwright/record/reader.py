"""A run on disk, read.

Flows in: a run's folder, also one that is being written, was torn by a crash, or was changed. Flows out: a `Run` with
everything that can be read, and the problems. Decided here: a run's status, and where a late output belongs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

from cellwright.errors import RunNotFound
from cellwright.record.blobs import Blobs, read_file
from cellwright.record.chain import digest
from cellwright.record.folder import read_info
from cellwright.record.lines import JOURNAL, Line, Problem, refuse_faults, scan
from cellwright.record.lock import is_locked
from cellwright.record.records import (
    CellClosed,
    CellOpened,
    CellRunning,
    LateOutput,
    Note,
    Record,
    RunClosed,
    Screen,
    SessionClosed,
)
from cellwright.record.run_info import RunInfo, RunStatus
from cellwright.record.stored import StoredOutput, restored
from cellwright_kernel.wire import Cell, Output


@dataclass(frozen=True)
class StoredCell:
    """A cell as the journal has it: its pictures are still named by hash."""

    opened: CellOpened
    closed: CellClosed | None = None
    """Absent while it runs, and when a crash came first."""
    so_far: tuple[StoredOutput, ...] = ()
    """What it had shown when that was last noted while it ran; all there is of a cell without an end."""
    late: tuple[StoredOutput, ...] = ()
    """What it wrote after its end, in order: while later cells ran, where it stands among their outputs, and after the last."""
    screen_after: str | None = None
    """Blob of the screenshot that shows the screen after it: one taken then or, where nothing had changed, the last one
    before. Absent when none could be taken, and until one would have been."""


@dataclass(frozen=True)
class Run:
    """Everything that can be read of one run."""

    folder: Path
    info: RunInfo
    lines: tuple[Line, ...]
    """The whole records in their places."""
    problems: tuple[Problem, ...]
    """What is wrong; empty for a run that is as it was written, as far as reading it shows. `verify` checks more."""
    is_live: bool
    """Whether a process was writing it."""

    @property
    def records(self) -> tuple[Record, ...]:
        """The whole records, in order."""
        return tuple(line.record for line in self.lines)

    @property
    def status(self) -> RunStatus:
        """How it ended; `running` while somebody writes it, `open` when a crash left it without an end."""
        return status_of(self.end, is_live=self.is_live)

    @property
    def end(self) -> RunClosed | None:
        """The record of its end; absent when it has none, or was opened again since."""
        return end_of(self.records)

    @property
    def blobs(self) -> Blobs:
        """The run's blobs."""
        return Blobs(self.folder / "blobs")

    @cached_property
    def stored_cells(self) -> tuple[StoredCell, ...]:
        """The cells as the journal has them, in order; no blob is read."""
        closed = {record.number: record for record in self.records if isinstance(record, CellClosed)}
        so_far = {record.number: record.outputs for record in self.records if isinstance(record, CellRunning)}
        late = _late_outputs(self.records)
        screens = _screens_after(self.records)
        return tuple(
            StoredCell(
                opened=record,
                closed=closed.get(record.number),
                so_far=so_far.get(record.number, ()),
                late=tuple(late[record.number]),
                screen_after=screens.get(record.number),
            )
            for record in self.records
            if isinstance(record, CellOpened)
        )

    @property
    def cells(self) -> Cells:
        """The cells, in order; the pictures of one are read when it is asked for."""
        return Cells(self)

    def cell(self, number: int) -> Cell:
        """Return one cell with its pictures, as `Session.execute` returned it.

        Raises:
            RunNotFound: when the run has no such cell.
            JournalCorrupt: when a blob of it is missing or was changed.
        """
        for cell in self.stored_cells:
            if cell.opened.number == number:
                return self.load(cell)
        raise RunNotFound(f"Run {self.info.run_id} has no cell {number}; it has {len(self.stored_cells)}.")

    def load(self, cell: StoredCell) -> Cell:
        """Return the cell with the bytes of its pictures; raises JournalCorrupt when a blob is missing or changed."""
        opened, closed = cell.opened, cell.closed
        begun = Cell(
            number=opened.number,
            language=opened.language,
            code=opened.code,
            started_at=opened.started_at,
            screen_before=opened.screen_before,
        )
        if closed is None:
            return begun.model_copy(update={"outputs": self._restored(cell.so_far)})
        return begun.model_copy(
            update={
                "status": closed.status,
                "outputs": self._restored(closed.outputs),
                "truncated": closed.truncated,
                "rung": closed.rung,
                "duration_ms": closed.duration_ms,
                "screen_after": cell.screen_after,
            }
        )

    def _restored(self, outputs: tuple[StoredOutput, ...]) -> tuple[Output, ...]:
        return tuple(restored(output, self.blobs.read) for output in outputs)

    def must_be_whole(self) -> None:
        """Return when every record could be read and follows the one before; a torn end is no fault.

        Raises:
            JournalCorrupt: naming the first record that is not as it was written.
        """
        refuse_faults(self.problems, self.folder)


class Cells(Sequence[Cell]):
    """The cells of a run, each loaded when it is asked for; what is asked raises as `Run.cell` does."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __len__(self) -> int:
        return len(self._run.stored_cells)

    @overload
    def __getitem__(self, index: int) -> Cell: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Cell, ...]: ...
    def __getitem__(self, index: int | slice) -> Cell | tuple[Cell, ...]:
        if isinstance(index, slice):
            return tuple(self._run.load(cell) for cell in self._run.stored_cells[index])
        return self._run.load(self._run.stored_cells[index])


def read_run(folder: Path) -> Run:
    """Read a run, also a torn or changed one: what can be read is there, the rest is named in `problems`.

    Raises:
        RunNotFound: when the folder holds no run.
        JournalCorrupt: when `run.json` cannot be read, so that it is not known what the records belong to.
    """
    is_live = is_locked(folder / JOURNAL)
    data, info = read_info(folder)
    try:
        journal = read_file(folder / JOURNAL)
    except OSError as error:
        gone = Problem(kind="missing", file=JOURNAL, what=f"cannot be read: {error.strerror}")
        return Run(folder, info, (), (gone,), is_live)
    found = scan(journal, digest(data))
    torn_by_writing = is_live and found.torn != b""
    problems = tuple(problem for problem in found.problems if not (torn_by_writing and problem.kind == "torn"))
    return Run(folder, info, found.lines, problems, is_live)


def end_of(records: Sequence[Record]) -> RunClosed | None:
    """Return the record of a run's end; absent when it has none, or was opened again since."""
    last = next((record for record in reversed(records) if not isinstance(record, Note)), None)
    return last if isinstance(last, RunClosed) else None  # anything else after an end: the run was resumed


def status_of(end: RunClosed | None, *, is_live: bool) -> RunStatus:
    """Return a run's status, given its end and whether somebody writes it."""
    if is_live:
        return "running"
    return end.status if end else "open"


def _late_outputs(records: Sequence[Record]) -> defaultdict[int, list[StoredOutput]]:
    """Return cell number -> what it wrote after its end."""
    late: defaultdict[int, list[StoredOutput]] = defaultdict(list)
    for record in records:
        if isinstance(record, LateOutput):
            late[record.of_cell] += record.outputs
        elif isinstance(record, CellClosed):
            for output in record.outputs:
                if output.of_cell is not None:
                    late[output.of_cell].append(output.model_copy(update={"of_cell": None}))
    return late


def _screens_after(records: Sequence[Record]) -> dict[int, str]:
    """Return cell number -> hash of the screen after it, where that is known.

    A screenshot is taken before the next cell or the session's end, if anything changed; until one of these is recorded,
    that there is no screenshot says nothing.
    """
    after: dict[int, str] = {}
    last: str | None = None
    ended: int | None = None
    for record in records:
        match record:
            case Screen():
                last = record.image.sha256
                if record.after_cell is not None:
                    after[record.after_cell] = last
            case CellClosed():
                ended = None if record.status == "sandbox_lost" else record.number
            case Note(topic="screen"):
                ended = None
            case CellOpened() | SessionClosed():
                if ended is not None and last is not None:
                    after.setdefault(ended, last)
                ended = None
            case _:
                pass
    return after
