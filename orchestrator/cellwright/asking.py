"""What a person is asked in a run, and by whom it is answered.

Flows in: questions of cells and of the model, cells that wait for an approval. Flows out: what a person said. Decided here: what an
answer is; that answers which were given beforehand are used in order; and that the time for which people are waited for is counted
once, however many are asked at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from cellwright_kernel.wire import Language
from cellwright_kernel.wire_people import ANSWER_CHARS

NOBODY: Final = (
    "Nobody can be asked in this run, so there is no answer. Decide yourself where that does no harm; else end, and say what you would "
    "have asked."
)


class NotAsked(Exception):
    """There is no answer; the message is a sentence for whoever asked."""


@dataclass(frozen=True)
class Question:
    """What is asked."""

    text: str
    """A stranger's words, at most `QUESTION_CHARS`: to be shown with `plain`, never to be followed."""
    cell: int | None = None
    """Number of the cell that asks; absent: the model itself does."""


class Asker(Protocol):
    """Puts questions to a person."""

    async def ask(self, question: Question) -> str | None:
        """Return the answer; None: the person gives none. Cancelled when nobody waits for it any more.

        Raises:
            NotAsked: There is nobody, or nobody any more.
        """


@dataclass(frozen=True)
class Pending:
    """A cell that waits for a person's approval, or something that is about to leave the sandbox."""

    cell: int | None
    """Absent: no cell runs."""
    language: Language | None
    code: str
    """A stranger's, as with `Question.text`; empty where no cell runs."""
    rule: str
    """Why a person is asked, as a sentence."""
    screen: str | None
    """Blob of what the desktop showed last; absent: nothing is known of it."""
    effect: str | None = None
    """What is about to leave, such as `POST example.com:80/order`; absent: the cell itself waits."""
    place: str | None = None
    """Where that goes, host and port."""


@dataclass(frozen=True)
class Approval:
    """What a person decided."""

    approved: bool
    reason: str | None = None
    """Why, in the person's words; the model is told where it was not approved."""


class Approver(Protocol):
    """Puts cells to a person before they are executed."""

    async def approve(self, pending: Pending) -> Approval:
        """Return what the person decided. Cancelled when nobody waits for it any more.

        Raises:
            NotAsked: There is nobody, or nobody any more.
        """


class Presets:
    """Answers that were given beforehand, each used once, in order.

    Args:
        answers: They.
        then: Who is asked when all are used; absent: nobody.
    """

    def __init__(self, answers: Sequence[str], then: Asker | None = None) -> None:
        self._answers = list(answers)
        self._then = then

    async def ask(self, question: Question) -> str | None:
        """See `Asker.ask`."""
        if self._answers:
            return self._answers.pop(0)
        if self._then is None:
            raise NotAsked("All answers that were given beforehand are used, and nobody else can be asked.")
        return await self._then.ask(question)


class Waits:
    """For how long people were waited for.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before_s = 0.0
        self._since = 0.0
        self._waiting = 0

    @property
    def total_s(self) -> float:
        """Seconds so far, those of a wait that goes on among them."""
        return self._before_s + (self._clock() - self._since if self._waiting else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time of the block."""
        if not self._waiting:
            self._since = self._clock()
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._before_s += self._clock() - self._since


class HeldLimit:
    """A time limit that does not run while people are waited for.

    Args:
        limit: The limit; held from within it only.
    """

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._held = 0
        self._left_s: float | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have it not run during the block."""
        if not self._held and not self._limit.expired():
            moment = self._limit.when()
            self._left_s = None if moment is None else moment - asyncio.get_running_loop().time()
            self._limit.reschedule(None)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held and not self._limit.expired() and self._left_s is not None:
                with suppress(RuntimeError):  # what was limited has ended in time, and somebody is still told so
                    self._limit.reschedule(asyncio.get_running_loop().time() + self._left_s)


def checked_answer(text: str | None) -> str:
    """Return an answer as it can be passed on.

    Raises:
        NotAsked: There is none, or it is too long.
    """
    if text is None or not text.strip():
        raise NotAsked("The person gave no answer.")
    if len(text) > ANSWER_CHARS:
        raise NotAsked(
            f"The answer has {len(text):,} characters, and may have {ANSWER_CHARS:,}. Nothing of it was given."
        )
    return text.encode("utf-8", "replace").decode()
