"""Who can be asked in one session, and when they have to be.

Flows in: who answers questions, who approves, by which rule. Flows out: answers, each with its record. Decided here: how long a
person is waited for; that whoever cannot answer is nobody; and that a question and its answer are in the run.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from cellwright.asking import NOBODY, Approver, Asker, NotAsked, Question, Waits, checked_answer
from cellwright.desk import Desk
from cellwright.policy import Rule
from cellwright.record.records import Note, PersonAnswered, Record

LONGEST_S: Final = 3600.0
"""Seconds for which people are waited for, for all questions of one cell together."""
QUESTION: Final = "question"
"""Topic of the note that a person is being asked."""

_log = logging.getLogger("cellwright.people")


class Recording(Protocol):
    """Where a question and its answer are recorded."""

    def append(self, record: Record) -> object:
        """Keep a record."""


class Recorded(Asker, Approver, Protocol):
    """The people of a record."""


@dataclass(frozen=True, eq=False)
class People:
    """Who can be asked in one session. One value for each session: it counts how long they were waited for."""

    asking: Asker | None = None
    """Answers questions; absent: nobody can be asked."""
    approver: Approver | None = None
    """Approves cells; absent: nobody can."""
    approve: Rule = "never"
    """Which cells have to be approved."""
    longest_s: float = LONGEST_S
    """Seconds for which they are waited for: for all questions of a cell together, for one of the model's, for an approval."""
    desk: Desk | None = None
    """Where what waits is found by those who are elsewhere; absent: nowhere."""
    recorded: Recorded | None = None
    """Answers, from the record, the questions of cells that are executed again for what they leave."""
    waits: Waits = field(default_factory=Waits)
    """For how long they were."""

    @property
    def may_hold(self) -> bool:
        """Whether a cell may come to wait for a person."""
        return self.asking is not None or self.approve != "never"

    @classmethod
    def at_a_desk(cls, *, approve: Rule = "never") -> Self:
        """Return people who are elsewhere, and find at a desk what waits for them."""
        desk = Desk()
        return cls(asking=desk, approver=desk, approve=approve, desk=desk)

    async def answered(
        self, question: Question, journal: Recording, *, within_s: float, call_id: str | None = None
    ) -> str:
        """Ask, and return the answer; question and answer are recorded.

        Args:
            question: What is asked.
            journal: Where that is recorded.
            within_s: Seconds for which the person is waited for.
            call_id: The model's call that asks; absent: a cell does.

        Raises:
            NotAsked: There is no answer; the message says why.
        """
        answer, refused = None, NOBODY
        before_s = self.waits.total_s
        try:
            if self.asking is not None:
                journal.append(Note(topic=QUESTION, text=question.text, cell=question.cell))
                answer = await self._said(self.asking, question, within_s)
        except NotAsked as error:
            refused = str(error)
        journal.append(
            PersonAnswered(
                cell=question.cell,
                call_id=call_id,
                question=question.text,
                answer=answer,
                refused=None if answer else refused,
                waited_ms=round(1000 * (self.waits.total_s - before_s)),
            )
        )
        if answer is None:
            raise NotAsked(refused)
        return answer

    async def _said(self, asking: Asker, question: Question, within_s: float) -> str:
        limit = asyncio.timeout(within_s)
        try:
            with self.waits.waiting():
                async with limit:
                    return checked_answer(await asking.ask(question))
        except NotAsked:
            raise
        except Exception as error:
            if limit.expired():
                raise NotAsked(
                    f"Nobody has answered within {self.longest_s:g} s. Go on without, or ask again."
                ) from None
            _log.exception("Whoever was to ask a person could not.")
            raise NotAsked(f"Nobody could be asked: {type(error).__name__}.") from error
