"""The place of questions in the kernel host: who asks is told, whatever the outside says or the cell does."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import GUARD_S

from cellwright.testing.clock import FakeClock
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.people import ask_user as asking
from cellwright_kernel.people.ask_user import WHERE, ask_user
from cellwright_kernel.people.broker import QuestionBroker
from cellwright_kernel.people.errors import NotAnswered
from cellwright_kernel.running_cell import RunningCell
from cellwright_kernel.wire import Event, Execute
from cellwright_kernel.wire_people import (
    QUESTION_CHARS,
    QUESTIONS,
    PersonAnswer,
    PersonAskedEvent,
    QuestionDroppedEvent,
)


class Kept:
    """A broker with a cell, and an outside that answers as it is told to."""

    def __init__(self, folder: Path) -> None:
        self.cell: RunningCell | None = RunningCell(
            Execute(number=1, language="python", code="", deadline_s=10), Outputs(), FakeClock(0)
        )
        self.broker = QuestionBroker(folder / "questions", lambda: self.cell)
        self.answers: Callable[[PersonAskedEvent], None] = lambda _: None
        self.events: list[Event] = []
        self.dropped = asyncio.Event()

    async def listen(self) -> None:
        assert self.cell is not None
        async for batch in self.cell.events():
            for event in batch:
                if isinstance(event, PersonAskedEvent):
                    self.answers(event)
                if isinstance(event, QuestionDroppedEvent):
                    self.dropped.set()
                self.events.append(event)


@asynccontextmanager
async def running() -> AsyncIterator[Kept]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a socket's path has at most 107 bytes
        kept = Kept(Path(folder))
        await kept.broker.start()
        listening, cell = asyncio.ensure_future(kept.listen()), kept.cell
        assert cell is not None
        try:
            yield kept
        finally:
            cell.close("ok", 1)
            await listening
            kept.broker.stop()


@pytest.fixture
async def kept(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    async with running() as one:
        monkeypatch.setenv(WHERE, str(one.broker.socket))
        yield one


def with_text(kept: Kept, text: str) -> None:
    kept.answers = lambda event: kept.broker.answer(event.number, PersonAnswer(text=text)) and None


async def told(question: object) -> str:
    def call() -> str:
        try:
            return ask_user(question)  # type: ignore[arg-type]
        except NotAnswered as error:
            return f"{error}"

    return await asyncio.to_thread(call)


async def test_an_answer_is_a_text_with_await_as_without(kept: Kept) -> None:
    with_text(kept, "blue")
    answer = await asyncio.to_thread(ask_user, "Which?")
    assert (answer, await answer, type(await answer)) == ("blue", "blue", str)
    assert [e.question for e in kept.events if isinstance(e, PersonAskedEvent)] == ["Which?"]


async def test_one_who_is_refused_is_told_why(kept: Kept) -> None:
    kept.answers = lambda event: kept.broker.answer(event.number, PersonAnswer(refused="Nobody is there.")) and None
    assert await told("Which?") == "Nobody is there."


async def test_between_cells_nobody_is_asked(kept: Kept) -> None:
    kept.cell, cell = None, kept.cell
    assert (await told("Which?")).startswith("A person is asked while a cell runs, and none does.")
    kept.cell = cell


async def test_a_cell_that_is_being_ended_asks_nobody(kept: Kept) -> None:
    assert kept.cell is not None
    kept.cell.ladder.ask()
    assert await told("Which?") == "This cell is being ended, so nobody was asked."


async def test_a_cell_that_asks_on_and_on_is_refused_after_twenty(kept: Kept) -> None:
    with_text(kept, "yes")
    answers = await asyncio.gather(*(told("?") for _ in range(QUESTIONS + 5)))
    refused = [answer.partition(".")[0] for answer in answers if answer != "yes"]
    assert refused == ["One cell may ask a person 20 times"] * 5


async def test_the_end_of_the_cell_ends_its_question(kept: Kept) -> None:
    assert kept.cell is not None
    kept.answers = lambda _: kept.cell and kept.cell.close("interrupted", 1)
    assert await told("Which?") == "Nobody waits for the answer any more: the cell that asked has ended."
    assert not kept.broker.answer(1, PersonAnswer(text="late"))


async def test_whoever_hangs_up_drops_the_question_and_the_deadline_runs_on(kept: Kept) -> None:
    assert kept.cell is not None
    reader, writer = await asyncio.open_unix_connection(kept.broker.socket)
    asked = asyncio.Event()
    kept.answers = lambda _: asked.set()
    writer.write(json.dumps({"question": "Which?"}).encode() + b"\n")
    await asked.wait()
    assert kept.cell.ladder._holds == 1
    writer.close()
    await writer.wait_closed()
    await asyncio.wait_for(kept.dropped.wait(), GUARD_S)
    assert kept.cell.ladder._holds == 0
    assert await reader.read() == b""


@pytest.mark.parametrize(
    "line", [b"\n", b"[]\n", b"{}\n", b'{"question":7}\n', b'{"question":""}\n', b"[" * 2000 + b"\n"]
)
async def test_what_is_no_question_is_told_so(kept: Kept, line: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(kept.broker.socket)
    writer.write(line)
    assert json.loads(await reader.readline()) == {"error": "This is no question to a person."}
    writer.close()
    await writer.wait_closed()


async def test_a_line_without_end_is_hung_up_on(kept: Kept) -> None:
    reader, writer = await asyncio.open_unix_connection(kept.broker.socket)
    writer.write(b"x" * 200_000)
    assert await reader.read() == b""
    writer.close()


async def test_what_nobody_can_read_is_refused_in_the_cell_itself() -> None:
    with pytest.raises(
        ValueError, match=r"The question has 10,000 characters, and may have 2,000\. Nobody was asked\."
    ):
        ask_user("q" * 10_000)
    with pytest.raises(ValueError, match="empty"):
        ask_user(" \n")
    with pytest.raises(TypeError, match="A question is a str, not int"):
        ask_user(7)  # type: ignore[arg-type]


async def test_elsewhere_than_in_a_session_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHERE, raising=False)
    assert await told("Which?") == "Nobody can be asked here: this kernel is not one of a session."
    monkeypatch.setenv(WHERE, "/nowhere/at/all")
    assert "The kernel host was not reached" in await told("Which?")


def test_the_kernels_own_limit_is_the_wires() -> None:
    assert asking._QUESTION_CHARS == QUESTION_CHARS
