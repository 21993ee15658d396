"""What people said in a run, for the cells that are done again.

Flows in: a run. Flows out: the answers to its cells' questions, and whether its cells were approved. Decided here: that a replay asks nobody;
that an answer belongs to its cell and to the words of its question, so that cells which ask several things at once get each their own;
that a question which the record does not know has no answer; and that a cell which nobody had decided about was not executed.
"""

from __future__ import annotations

from cellwright.approval import asked_of
from cellwright.asking import Approval, NotAsked, Pending, Question
from cellwright.people import People
from cellwright.policy import Rule, decide
from cellwright.record import Run
from cellwright.record.records import ApprovalDecided, CellClosed, Note, PersonAnswered


def never_approved(run: Run) -> frozenset[int]:
    """Return the cells that waited for an approval when everything was stopped: nothing of them ran."""
    note, waited = asked_of(decide("each")), set[int]()
    for record in run.records:
        match record:
            case Note(topic="approval", cell=int(cell), text=text) if text == note:
                waited.add(cell)
            case ApprovalDecided(cell=int(cell), place=None):
                waited.discard(cell)
            case CellClosed(number=cell):
                waited.discard(cell)
            case _:
                pass
    return frozenset(waited)


class RecordedPeople:
    """The people of a run that is done again.

    Args:
        run: It.
    """

    def __init__(self, run: Run) -> None:
        self._answers: dict[tuple[int | None, str], list[PersonAnswered]] = {}
        self._denied: dict[tuple[int | None, str | None], ApprovalDecided] = {}
        for record in run.records:
            match record:
                case PersonAnswered(cell=int()):
                    self._answers.setdefault((record.cell, record.question), []).append(record)
                case ApprovalDecided(approved=False):
                    self._denied[record.cell, record.place] = record
                case _:
                    pass

    async def ask(self, question: Question) -> str | None:
        """See `Asker.ask`."""
        there = self._answers.get((question.cell, question.text), [])
        if not there:
            raise NotAsked(
                "The record has no answer to this question, and nobody is asked when a run is done again. Usually the question, or the "
                "cell's number, is another than it was then."
            )
        said = there.pop(0)
        if said.answer is None:
            raise NotAsked(said.refused or "There was no answer.")
        return said.answer

    async def approve(self, pending: Pending) -> Approval:
        """See `Approver.approve`."""
        denied = self._denied.get((pending.cell, pending.place))
        if denied is None:
            return Approval(approved=True)
        if denied.by_person:
            return Approval(approved=False, reason=denied.reason)
        raise NotAsked(denied.reason or "")

    @property
    def people(self) -> People:
        """Whom a replay asks."""
        rule: Rule = "never"
        if self._denied:
            rule = "each" if any(place is None for _, place in self._denied) else "effects"
        return People(asking=self, approver=self, approve=rule)
