"""A run that this process is writing, read as it grows.

Flows in: the folder of a run. Flows out: its cells as the journal has them. Decided here: that only what is new is read, so
that a replay of thousands of cells does not read its journal thousands of times; and that nothing is checked, since the writer
is this process: `read_run` checks.
"""

from __future__ import annotations

import io
from pathlib import Path

from cellwright.record import StoredCell
from cellwright.record.chain import unseal
from cellwright.record.lines import JOURNAL
from cellwright.record.records import RECORD, CellClosed, CellOpened, LateOutput, Screen
from cellwright.record.stored import StoredOutput


class Following:
    """The latest cell of a growing run.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._journal = folder / JOURNAL
        self._offset = 0
        self._opened: CellOpened | None = None
        self._closed: CellClosed | None = None
        self._late: tuple[StoredOutput, ...] = ()
        self._screen: str | None = None

    def cell(self) -> StoredCell | None:
        """Return the cell that was opened last, as it stands; None before the first."""
        self._read()
        if self._opened is None:
            return None
        closed = self._closed if self._closed and self._closed.number == self._opened.number else None
        return StoredCell(self._opened, closed, late=self._late, screen_after=self._screen)

    def _read(self) -> None:
        with self._journal.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        for line in io.BytesIO(data):
            if not line.endswith(b"\n"):
                return
            self._offset += len(line)
            body = dict(unseal(line[:-1]).body)
            del body["n"], body["previous"]
            match RECORD.validate_python(body):
                case CellOpened() as record:
                    self._opened, self._late = record, ()
                case CellClosed() as record:
                    self._closed = record
                case LateOutput(of_cell=number) as record if self._opened and number == self._opened.number:
                    self._late += record.outputs
                case Screen() as record:
                    self._screen = record.image.sha256
                case _:
                    continue
