"""Which cells of a run are executed again to bring back what they left, and how.

Flows in: a run, what may be done again, and a person's answers. Flows out: a plan, before anything is started. Decided here:
what is no question (a cell that only read, and has an end, is executed again and answered from the record), and what is: a
cell that sent something, one that was lost, one that the user marked. Nothing is brought back of cells whose sandbox was lost
where the run has gone on in another one since: the model was told then that all was gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from cellwright.conversation import is_lost
from cellwright.errors import UsageError
from cellwright.record import Run, StoredCell
from cellwright.record.records import CellClosed, CellOpened, Exchanged, Note, Record, RequestSent
from cellwright.replay.answers import never_approved
from cellwright.replay.effects import sent_by_cells
from cellwright.replay.missed import with_short_addresses
from cellwright.replay.network import last_of_cells

Rerun = Literal["safe", "recorded", "ask", "all"]
"""Of cells that are a question: `safe` executes none again, `all` all, with what they send sent again; `ask` asks; `recorded`
executes those again of which the record has every answer, and nothing is sent."""

How = Literal["recorded", "live", "left"]
"""`recorded`: executed again, the record answers. `live`: executed again, the world does. `left`: not executed again."""


@dataclass(frozen=True, slots=True)
class Question:
    """A cell that is not executed again without being asked for."""

    cell: StoredCell
    sent: tuple[str, ...]
    """What it sent, each in words."""
    reason: str
    """Why it is a question, as a sentence."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What becomes of one cell."""

    cell: StoredCell
    how: How
    reason: str | None = None
    """Why it is left; absent when it is not."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of all of them."""

    cells: tuple[Planned, ...]
    """In order; those that left nothing are not among them."""
    begins: int
    """Place of the first record that left something."""
    last: str | None
    """Hash of the last record that it was made from; absent where there was none."""

    def must_be_of(self, run: Run) -> None:
        """Return when a run has come no further since the plan was made.

        Raises:
            UsageError: It has.
        """
        if self.last != _last_of(run):
            raise UsageError(
                f"Run {run.info.run_id} has gone on since it was looked at: another process has written it. Nothing was started. "
                "Look at it, and give the same command again."
            )


def plan_for(
    run: Run, rerun: Rerun, *, marked: Collection[int] = (), ask: Callable[[Question], bool] = lambda _: False
) -> Plan:
    """Return what becomes of the cells of a run.

    Args:
        run: The record.
        rerun: What is done with cells that are a question.
        marked: Numbers of cells that are one because the user says so.
        ask: Is given each, where `rerun` is `ask`; whether it is executed again.
    """
    sent, begins, waited = sent_by_cells(run), _begins(run), never_approved(run)
    first = run.lines[begins].number if begins < len(run.lines) else 0
    left_something = {
        line.record.number for line in run.lines if line.number >= first and line.record.type == "cell_opened"
    }
    planned: list[Planned] = []
    for cell in run.stored_cells:
        number = cell.opened.number
        closed = cell.closed
        if (
            number not in left_something
            or number in waited
            or (closed and (closed.status == "denied" or not closed.posted))
        ):
            continue
        question = _question(cell, sent.get(number, ()), is_marked=number in marked)
        planned.append(Planned(cell, "recorded") if question is None else _decided(question, run, rerun, ask))
    return Plan(tuple(planned), begins, _last_of(run))


def _last_of(run: Run) -> str | None:
    """Return the hash of a run's last record; a note that its torn end was cut says nothing of what its cells left."""
    return next((line.hash for line in reversed(run.lines) if not _is_repair(line.record)), None)


def _is_repair(record: Record) -> bool:
    return isinstance(record, Note) and record.topic == "repair"


def _begins(run: Run) -> int:
    """Return the place from which on a sandbox was used that took the place of a lost one; the beginning, where none was."""
    begins, running = 0, None
    for place, record in enumerate(run.records):
        match record:
            case CellOpened():
                running = place
            case CellClosed():
                running = None
            case Note(topic="sandbox"):  # a cell that is opened meanwhile runs in the new one
                begins = place if running is None else running
            case _:
                pass
    return begins


def _question(cell: StoredCell, sent: tuple[str, ...], *, is_marked: bool) -> Question | None:
    if is_lost(cell):
        return Question(cell, sent, "It had not ended when everything stopped: how far it had come is not known.")
    if sent:
        return Question(cell, sent, f"It sent {_some(sent)}.")
    return Question(cell, sent, "It was marked as one to leave alone.") if is_marked else None


def _decided(question: Question, run: Run, rerun: Rerun, ask: Callable[[Question], bool]) -> Planned:
    if rerun == "all" or (rerun == "ask" and ask(question)):
        return Planned(question.cell, "live")
    if rerun == "recorded" and question.sent and not is_lost(question.cell) and _has_answers(question.cell, run):
        return Planned(question.cell, "recorded")
    return Planned(question.cell, "left", question.reason)


def _has_answers(cell: StoredCell, run: Run) -> bool:
    """Whether for everything that a cell sent there is an answer in the record; what could not be read has none."""
    number = cell.opened.number
    last = last_of_cells(run)
    sent = [one for one in last if isinstance(one, RequestSent) and one.cell == number]
    came = [one for one in last if isinstance(one, Exchanged) and one.cell == number and one.body.kept]
    left = [(one.method, one.host, one.port, one.target) for one in came]
    for one in sent:
        place = (one.method, one.host, one.port, one.target)
        if place not in left:
            return False
        left.remove(place)
    return bool(sent)


def _some(sent: tuple[str, ...]) -> str:
    return with_short_addresses(", ".join(sent[:3])) + (f" and {len(sent) - 3} more" if len(sent) > 3 else "")
