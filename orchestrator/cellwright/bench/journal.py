"""What the journal costs a cell: its records, its text, and a screenshot with two cells of five.

Flows in: nothing. Flows out: a row. Decided here: that the baseline writes the same words and pictures to a file each,
without a record, a hash or a seal, in turns with it; and that the disk is that of the user's own runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from cellwright.bench.rows import Row
from cellwright.record import Journal, RunInfo, recorded_spec, records, runs_folder
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Cell, Text

CELLS: Final = 100
TURNS: Final = 10
_TEXT: Final = "a line of fifty letters, as a program writes them\n" * 50
_PICTURE: Final = 50_000
_HEAD: Final = b"\x89PNG\r\n\x1a\n"


def measure() -> list[Row]:
    """Measure; takes about 2 s."""
    runs_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=runs_folder().parent) as name:
        folder = Path(name)
        info = RunInfo(
            run_id="bench",
            created_at=_now(),
            cellwright="0",
            driver="library",
            session_id="bench",
            spec=recorded_spec(Spec()),
        )
        journal = Journal.create(folder / "bench", info)
        with (folder / "plain").open("ab", buffering=0) as words:
            turns = [
                (
                    _each_ms(lambda number: _record(journal, number), turn),
                    _each_ms(lambda number: _write(folder, words.write, number), turn),
                )
                for turn in range(TURNS)
            ]
        journal.close("done")
    ours, plain = (round(median(took), 3) for took in zip(*turns, strict=True))
    what = "the journal of a cell, with its text and 0.4 screenshots"
    return [
        Row(
            what=what, ours=ours, baseline=plain, unit="ms", stock="the same bytes in files, without records and hashes"
        )
    ]


def _each_ms(do: Callable[[int], None], turn: int) -> float:
    began = time.perf_counter()
    for number in range(turn * CELLS + 1, (turn + 1) * CELLS + 1):
        do(number)
    return (time.perf_counter() - began) * 1000 / CELLS


def _record(journal: Journal, number: int) -> None:
    cell = Cell(
        number=number,
        language="python",
        code=f"x = {number}",
        status="ok",
        outputs=(Text(text=_TEXT, source="stdout"),),
        started_at=_now(),
        duration_ms=1,
    )
    journal.append(records.CellOpened.of(cell))
    journal.cell_closed(cell)
    if number % 5 < 2:
        journal.screenshot(_picture(number), after_cell=number)


def _write(folder: Path, write: Callable[[bytes], object], number: int) -> None:
    write(f"x = {number}\n{_TEXT}".encode())
    if number % 5 < 2:
        (folder / f"{number}.png").write_bytes(_picture(number))


def _picture(number: int) -> bytes:
    return _HEAD + number.to_bytes(4, "big") * (_PICTURE // 4)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
