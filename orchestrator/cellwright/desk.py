"""What waits for a person who is not at this process's terminal: questions and approvals of one session, each with a number.

Flows in: questions and cells; answers and decisions by number, from wherever people are. Flows out: what waits. Decided here: that a number is
never given twice, and that the first answer counts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from cellwright.asking import Approval, Pending, Question
from cellwright.errors import NothingWaits

_Asked = TypeVar("_Asked", Question, Pending)
_Said = TypeVar("_Said", str, Approval)


class Desk:
    """Where people find what waits for them. It answers as an `Asker` and an `Approver`, when they have."""

    def __init__(self) -> None:
        numbers = itertools.count(1)
        self._questions: _Pile[Question, str] = _Pile(numbers)
        self._approvals: _Pile[Pending, Approval] = _Pile(numbers)

    async def ask(self, question: Question) -> str | None:
        """See `Asker.ask`."""
        with self._questions.lying(question) as said:
            return await said

    async def approve(self, pending: Pending) -> Approval:
        """See `Approver.approve`."""
        with self._approvals.lying(pending) as said:
            return await said

    @property
    def questions(self) -> dict[int, Question]:
        """Questions that wait for an answer, by number."""
        return self._questions.waiting

    @property
    def approvals(self) -> dict[int, Pending]:
        """Cells that wait for an approval, by number."""
        return self._approvals.waiting

    def answer(self, number: int, text: str) -> None:
        """Answer a question.

        Raises:
            NothingWaits: There is none of this number, or it was answered, or is not asked any more.
        """
        self._questions.say(number, text)

    def decide(self, number: int, approval: Approval) -> None:
        """Say whether a cell may be executed.

        Raises:
            NothingWaits: None of this number waits for that, or not any more.
        """
        self._approvals.say(number, approval)


class _Pile(Generic[_Asked, _Said]):
    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._lying: dict[int, tuple[_Asked, asyncio.Future[_Said]]] = {}

    @property
    def waiting(self) -> dict[int, _Asked]:
        return {number: asked for number, (asked, said) in self._lying.items() if not said.done()}

    @contextmanager
    def lying(self, asked: _Asked) -> Iterator[asyncio.Future[_Said]]:
        number = next(self._numbers)
        said: asyncio.Future[_Said] = asyncio.get_running_loop().create_future()
        self._lying[number] = asked, said
        try:
            yield said
        finally:
            del self._lying[number]

    def say(self, number: int, what: _Said) -> None:
        _, said = self._lying.get(number, (None, None))
        if said is None or said.done():
            raise NothingWaits(
                f"Nothing of number {number} waits for this. Usually somebody else has said it already, or the cell has ended. Nothing was "
                "done. `cellwright people` lists what waits now."
            )
        said.set_result(what)
