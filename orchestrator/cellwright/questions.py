"""What cells ask people, while they run.

Flows in: events of a cell's stream. Flows out: answers to the kernel host, when people have given them. Decided here: that the
cell's events are read on meanwhile, and its time limit does not run; how many questions of one cell, and how much waiting, is
believed; and that with the cell its questions end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from cellwright.asking import NOBODY, Asker, HeldLimit, NotAsked, Question, Waits, checked_answer
from cellwright.errors import RecordError, SandboxLost
from cellwright.people import People
from cellwright.record.journal import Journal
from cellwright.sandbox.door import Door
from cellwright_kernel.wire import Event
from cellwright_kernel.wire_people import QUESTIONS, PersonAnswer, PersonAskedEvent, QuestionDroppedEvent


class Questions:
    """The questions of one cell. Made by `Questions.of`.

    Args:
        people: Who can be asked.
        journal: Where that is recorded; absent: the cell is executed again, and what the record has is the answer.
        door: Where answers go.
        cell: Number of the cell.
        limit: Its time limit.
        on_waiting: Is told how many of its questions wait for a person, when that changes.
    """

    def __init__(
        self,
        people: People,
        journal: Journal | None,
        door: Door,
        cell: int,
        *,
        limit: HeldLimit,
        on_waiting: Callable[[int], None],
    ) -> None:
        self._people = people
        self._journal = journal
        self._door = door
        self._cell = cell
        self._limit = limit
        self._on_waiting = on_waiting
        self._asked: dict[int, asyncio.Task[None]] = {}  # awaited in `of`
        self._count = 0
        self._waits = Waits()

    @classmethod
    @asynccontextmanager
    async def of(
        cls,
        people: People,
        journal: Journal | None,
        door: Door,
        cell: int,
        *,
        limit: HeldLimit,
        on_waiting: Callable[[int], None],
    ) -> AsyncIterator[Questions]:
        """Answer a cell's questions during the block; those that are open at its end are asked no longer."""
        questions = cls(people, journal, door, cell, limit=limit, on_waiting=on_waiting)
        try:
            yield questions
        finally:
            for asked in questions._asked.values():
                asked.cancel()
            await asyncio.gather(*questions._asked.values(), return_exceptions=True)

    def take(self, event: Event) -> None:
        """Look at an event of the cell's stream.

        Raises:
            SandboxLost: It asks more than a kernel host lets it, or twice under one number.
        """
        match event:
            case PersonAskedEvent(number=number):
                self._count += 1
                if self._count > QUESTIONS or number in self._asked:
                    raise SandboxLost(
                        f"The kernel host asked more than {QUESTIONS} questions for one cell, or one twice."
                    )
                self._asked[number] = asyncio.ensure_future(self._answer(event))
                self._tell()
            case QuestionDroppedEvent(number=number):
                if (asked := self._asked.get(number)) is not None:
                    asked.cancel()
            case _:
                pass

    async def _answer(self, event: PersonAskedEvent) -> None:
        try:
            with self._limit.held():
                said = await self._said(Question(event.question, self._cell))
                with suppress(SandboxLost):  # whoever reads its stream finds that, too
                    await self._door.answer(event.number, said)
        finally:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._on_waiting(sum(not asked.done() for asked in self._asked.values()))

    async def _said(self, question: Question) -> PersonAnswer:
        left_s = max(0.0, self._people.longest_s - self._waits.total_s)
        try:
            with self._waits.waiting():
                if self._journal is None:
                    return PersonAnswer(text=await _from_record(self._people.recorded, question))
                return PersonAnswer(text=await self._people.answered(question, self._journal, within_s=left_s))
        except (NotAsked, RecordError) as error:
            return PersonAnswer(refused=str(error))


async def _from_record(recorded: Asker | None, question: Question) -> str:
    if recorded is None:
        raise NotAsked(NOBODY)
    return checked_answer(await recorded.ask(question))
