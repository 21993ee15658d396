"""The state that a run's cells had left, brought back in a new sandbox.

Flows in: a run, a plan, and an open session of it. Flows out: what was brought back and what was not, and that in words for
the model. Decided here: that the record answers until the first cell goes out live, and then the world, since after that the
record would contradict it; that files which were written and deleted, and restarts of kernels, are done again in their places;
and what counts as brought back: the same status, and the same texts but for what may differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cellwright.conversation import is_lost
from cellwright.counted import counted
from cellwright.errors import FileMissing, SandboxLost
from cellwright.record import Run, StoredCell
from cellwright.record.records import (
    CellClosed,
    CellOpened,
    CellRebuilt,
    FileDeleted,
    FileWritten,
    KernelRestarted,
    Note,
    Record,
)
from cellwright.replay.compare import Side
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.plan import Plan, Planned
from cellwright.session import Session
from cellwright_kernel.wire import Cell

_MOST_CHARS: Final = 12_000
"""Most of what is said of cells, and most of what else is missing; about 3000 tokens each."""
_MOST_NAMED: Final = 50
_PAIR: Final = 2
_GONE_AGAIN: Final = (
    "The new sandbox ended while the run was brought back in it. Usually a cell used up its memory, as it may have before. "
    "What was brought back is gone again; the run can be resumed as before."
)
_OUTPUT_WORDS: Final = "It said something else than before."


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What came of a plan."""

    cells: tuple[CellRebuilt, ...]
    """Each cell of it, as it was recorded."""
    missing: tuple[str, ...] = ()
    """What else is not as it was, each a sentence."""
    has_network: bool = True
    """Whether there is any way out of the sandbox."""
    lost: frozenset[int] = frozenset()
    """Numbers of those that have no end in the record, so that there is nothing to hold them against."""

    @property
    def is_complete(self) -> bool:
        """Whether everything is as it was, as far as is known."""
        return not self.missing and all(cell.status is not None and cell.reason is None for cell in self.cells)

    def words(self, what_happened: str) -> str:
        """Return what a model, or a person, is told of it.

        Args:
            what_happened: A sentence that stands in front; what comes after it is bounded, however many cells there are and
                whatever they asked for.
        """
        well = [cell.number for cell in self.cells if cell.status is not None and cell.reason is None]
        same = [number for number in well if number not in self.lost]
        lost = [number for number in well if number in self.lost]
        others = [cell for cell in self.cells if cell.reason is not None]
        lines = [
            what_happened,
            "It goes on in a new sandbox: what was in the old one is gone, but for what was brought back.",
        ]
        if same:
            which = f"Cell{'s' if len(same) > 1 else ''} {_ranges(same)}"
            lines.append(
                f"{which} {'were' if len(same) > 1 else 'was'} executed again, and gave what is in the record."
            )
        if lost:
            which = f"Cell{'s' if len(lost) > 1 else ''} {_ranges(lost)}"
            lines.append(
                f"{which}, whose end was lost, {'were' if len(lost) > 1 else 'was'} executed again and ended well; there is "
                "nothing in the record to hold that against."
            )
        lines += _bounded([_told(cell) for cell in others], "cell")
        lines += _bounded(self.missing, "thing")
        if self.cells and self.has_network:
            lines.append(self._of_network())
        if others:
            lines.append(
                "Look at what is there, inside and outside, before you go on: what these cells did may be done already."
            )
        return "\n".join(lines)

    def _of_network(self) -> str:
        live = [cell.number for cell in self.cells if cell.is_live and cell.status is not None]
        if live:
            which = f"Cell{'s' if len(live) > 1 else ''} {_ranges(live)}"
            return (
                f"{which} went out to the network again: what {'they' if len(live) > 1 else 'it'} sent was sent again."
            )
        return (
            "Nothing was sent again. Where these cells read from the network, the run's record answered; from now on the "
            "network does. Load a page again before you rely on it."
        )


def _told(cell: CellRebuilt) -> str:
    how = "was not executed again" if cell.status is None else f"was executed again, and ended {cell.status}"
    return f"Cell {cell.number} {how}. {cell.reason}"


def _bounded(lines: Sequence[str], what: str) -> Iterator[str]:
    """Yield as many lines as there is room for, and how many there was none for: a cell's code decides what stands in them."""
    left = _MOST_CHARS
    for place, line in enumerate(lines):
        left -= len(line)
        if place == _MOST_NAMED or left < 0:
            rest = len(lines) - place
            yield f"{counted(rest, f'more {what}')} {'is' if rest == 1 else 'are'} not as before either; `cellwright show` has them."
            return
        yield line


class Rebuilding:
    """Does one plan.

    Args:
        run: The record.
        plan: What becomes of its cells.
        session: Open, in a new sandbox, with the record's tape before the network.
        may_differ: What of the texts does not count.
        missed: Returns what the tape had no answer to since it was asked last, each a sentence.
        on_cell: Is told of each cell, as soon as that is known.
    """

    def __init__(
        self,
        run: Run,
        plan: Plan,
        session: Session,
        may_differ: MayDiffer,
        *,
        missed: Callable[[], Sequence[str]],
        on_cell: Callable[[CellRebuilt], None],
    ) -> None:
        self._run = run
        self._plan = plan
        self._planned = {planned.cell.opened.number: planned for planned in plan.cells}
        self._session = session
        self._sandbox = session.sandbox()
        self._may_differ = may_differ
        self._missed = missed
        self._on_cell = on_cell
        self._is_live = False
        self._missing: list[str] = []

    async def rebuilt(self) -> Rebuilt:
        """Do all of it, and let the network in.

        Raises:
            SandboxLost: The new sandbox ended, too. It is not replaced: what was brought back in it is gone with it.
        """
        try:
            cells = [cell async for cell in self._cells()]
            self._session.sandbox(self._sandbox)
        except SandboxLost as error:
            raise SandboxLost(_GONE_AGAIN) from error
        self._session.go_live()
        return Rebuilt(
            tuple(cells),
            tuple(dict.fromkeys(self._missing)),
            has_network=bool(self._session.spec.allow),
            lost=frozenset(number for number, one in self._planned.items() if is_lost(one.cell)),
        )

    async def _cells(self) -> AsyncIterator[CellRebuilt]:
        for record in self._run.records[self._plan.begins :]:
            if isinstance(record, CellOpened) and record.number in self._planned:
                cell = await self._cell(self._planned[record.number])
                self._session.journal.append(cell)
                self._on_cell(cell)
                yield cell
            else:
                await self._between(record)

    async def _between(self, record: Record) -> None:
        match record:
            case KernelRestarted(language=language):
                await self._session.restart(language, again_in=self._sandbox)
            case FileWritten(path=path, sha256=sha256, kept=True):
                data = await asyncio.to_thread(self._run.blobs.read, sha256)
                await self._session.write_file(path, data, again_in=self._sandbox)
            case FileWritten(path=path):
                self._missing.append(f"The file {path} was too large for the run to keep, and is not there.")
            case Note(topic="attached"):
                self._missing.append("Somebody had attached a Jupyter client: what was executed there is not recorded.")
            case FileDeleted(path=path):
                with suppress(FileMissing):  # of a cell that was not executed again
                    await self._session.delete_file(path, again_in=self._sandbox)
            case _:
                return

    async def _cell(self, planned: Planned) -> CellRebuilt:
        number = planned.cell.opened.number
        if planned.how == "left":
            return CellRebuilt(number=number, reason=planned.reason)
        if planned.how == "live" and not self._is_live:
            self._is_live = True
            self._session.go_live()
        self._missed()
        cell = await self._execute(planned.cell)
        if cell.status == "sandbox_lost":
            raise SandboxLost(_GONE_AGAIN)
        outputs = tuple(self._session.journal.store(output, cell=number) for output in cell.outputs)
        closed = CellClosed(number=number, status=cell.status, outputs=outputs, duration_ms=cell.duration_ms or 0)
        reason = await asyncio.to_thread(self._differs, planned.cell, closed)
        return CellRebuilt(
            number=number,
            status=cell.status,
            reason=reason,
            outputs=outputs,
            is_live=self._is_live,
            duration_ms=closed.duration_ms,
        )

    async def _execute(self, recorded: StoredCell) -> Cell:
        opened, closed = recorded.opened, recorded.closed
        was_interrupted = closed is not None and closed.status == "interrupted"
        return await self._session.execute_again(
            opened,
            within=self._sandbox,
            deadline_s=opened.deadline_s or self._session.spec.cell_deadline_s,
            interrupt_after_s=closed.duration_ms / 1000 if closed is not None and was_interrupted else None,
        )

    def _differs(self, recorded: StoredCell, closed: CellClosed) -> str | None:
        """Return what is not as before; of a cell that never ended there is no before."""
        missed = " ".join(self._missed())
        before = recorded.closed
        if before is None or is_lost(recorded):
            return missed or None if closed.status == "ok" else f"It had no end before. {missed}".rstrip()
        if before.status != closed.status:
            return f"Before, it ended {before.status}. {missed}".rstrip()
        one = Side(self._run.blobs, StoredCell(recorded.opened, before))
        two = Side(self._run.blobs, StoredCell(recorded.opened, closed))
        now = datetime.fromisoformat(closed.at)
        if self._may_differ.plain(one.texts(), one.started).text != self._may_differ.plain(two.texts(), now).text:
            return f"{_OUTPUT_WORDS} {missed}".rstrip()
        return None


def _ranges(numbers: Sequence[int]) -> str:
    """Return `1 to 4, 6, 7` for 1, 2, 3, 4, 6, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    named = [f"{part[0]} to {part[-1]}" if len(part) > _PAIR else ", ".join(map(str, part)) for part in parts]
    more = sum(map(len, parts[_MOST_NAMED:]))
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more else "")
