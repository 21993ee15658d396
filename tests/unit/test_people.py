"""Cells that ask a person: who answers, what is recorded, what is said where nobody can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from cellwright.asking import HeldLimit, NotAsked, Presets, Question, Waits, checked_answer
from cellwright.people import People
from cellwright.questions import Questions
from cellwright.record import read_run
from cellwright.record.records import Note, PersonAnswered
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright.testing import FakeBackend
from cellwright_kernel.wire import Event
from cellwright_kernel.wire_people import ANSWER_CHARS, QUESTIONS, PersonAnswer, PersonAskedEvent

ASK = "log(ask_user('Which account?'))"


class Person:
    """Answers as they were told to; a `None` among the answers is a shrug, an error is raised, and after the last they say nothing."""

    def __init__(self, *answers: str | Exception | None) -> None:
        self.answers = list(answers)
        self.heard: list[Question] = []
        self.is_asked = asyncio.Event()

    async def ask(self, question: Question) -> str | None:
        self.heard.append(question)
        self.is_asked.set()
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def said_in(session: Session) -> list[tuple[str, int | None, str | None, str | None]]:
    records = read_run(session.run_dir).records
    return [(r.question, r.cell, r.answer, r.refused) for r in records if isinstance(r, PersonAnswered)]


async def test_a_cell_is_given_the_persons_answer_and_the_run_has_both() -> None:
    person = Person("the blue one")
    async with Session.open(backend=FakeBackend(), people=People(asking=person)) as session:
        cell = await session.execute(ASK)
    assert (cell.status, cell.text) == ("ok", "the blue one")
    assert person.heard == [Question("Which account?", 1)]
    assert said_in(session) == [("Which account?", 1, "the blue one", None)]
    kinds = [record.type for record in read_run(session.run_dir).records]
    asked = kinds.index("note")  # it is on disk before the person is asked, and the answer before the cell has it
    assert kinds[asked - 1 : asked + 3] == ["cell_opened", "note", "person_answered", "cell_closed"]


@pytest.mark.parametrize(
    ("people", "sentence"),
    [
        (None, "Nobody can be asked in this run"),
        (People(asking=Presets([])), "All answers that were given beforehand are used"),
        (People(asking=Person(None)), "The person gave no answer."),
        (People(asking=Person("x" * (ANSWER_CHARS + 1))), "The answer has 20,001 characters, and may have 20,000."),
        (People(asking=Person(), longest_s=0.01), "Nobody has answered within 0.01 s."),
        (People(asking=Person(OSError("no terminal"))), "Nobody could be asked: OSError."),
    ],
)
async def test_a_cell_without_an_answer_is_told_why(people: People | None, sentence: str) -> None:
    async with Session.open(backend=FakeBackend(), people=people) as session:
        cell = await session.execute(ASK)
        after = await session.execute("log(1)")
    assert cell.status == "error"
    assert sentence in cell.text
    assert after.text == "1"


async def test_where_nobody_can_be_asked_the_run_says_so() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute(ASK)
    ((question, cell, answer, refused),) = said_in(session)
    assert (question, cell, answer) == ("Which account?", 1, None)
    assert str(refused).startswith("Nobody can be asked in this run")
    assert not [record for record in read_run(session.run_dir).records if isinstance(record, Note)]


async def test_answers_that_were_given_beforehand_are_used_in_order_then_a_person_is_asked() -> None:
    people = People(asking=Presets(["one", "two"], then=Person("three")))
    async with Session.open(backend=FakeBackend(), people=people) as session:
        cells = [await session.execute(ASK) for _ in range(3)]
    assert [cell.text for cell in cells] == ["one", "two", "three"]


async def test_half_a_character_in_an_answer_harms_nothing() -> None:
    async with Session.open(backend=FakeBackend(), people=People(asking=Presets(["a\udc00b"]))) as session:
        cell = await session.execute(ASK)
    assert cell.text == "a?b"


async def test_a_limit_does_not_run_while_a_person_is_waited_for() -> None:
    limit = asyncio.timeout(5)
    async with limit:
        held_limit, before = HeldLimit(limit), limit.when()
        with held_limit.held():
            with held_limit.held():
                assert limit.when() is None
            assert limit.when() is None
            await asyncio.sleep(0.01)
        after = limit.when()
    assert before is not None
    assert after is not None
    assert after >= before + 0.01


async def test_a_limit_that_is_over_is_not_held_any_more() -> None:
    async def held_after_its_end() -> None:
        async with asyncio.timeout(0) as limit:
            try:
                await asyncio.Event().wait()
            finally:
                with HeldLimit(limit).held():
                    pass

    with pytest.raises(TimeoutError):
        await held_after_its_end()


async def test_a_limit_whose_block_has_ended_meanwhile_is_let_go_of_without_harm() -> None:
    held = ExitStack()
    async with asyncio.timeout(60) as limit:
        held.enter_context(HeldLimit(limit).held())
        await asyncio.sleep(0)
    held.close()
    assert limit.when() is None


def test_time_for_which_several_are_waited_for_counts_once() -> None:
    now = [0.0]
    waits = Waits(lambda: now[0])
    with waits.waiting():
        now[0] = 3
        assert waits.total_s == 3
        with waits.waiting():
            now[0] = 5
    now[0] = 100
    assert waits.total_s == 5


async def test_a_cell_that_is_interrupted_while_it_asks_asks_no_longer() -> None:
    person = Person()
    async with Session.open(backend=FakeBackend(), people=People(asking=person)) as session:
        executing = asyncio.ensure_future(session.execute(ASK))
        await person.is_asked.wait()
        await session.interrupt()
        cell = await executing
    assert cell.text == "RuntimeError: The cell was interrupted."
    assert said_in(session) == []


async def test_a_session_that_is_closed_while_a_cell_asks_asks_no_longer() -> None:
    person = Person()
    async with Session.open(backend=FakeBackend(), people=People(asking=person)) as session:
        executing = asyncio.ensure_future(session.execute(ASK))
        await person.is_asked.wait()
    assert "The session was closed while this cell ran" in (await executing).text
    assert said_in(session) == []


async def test_a_value_of_a_secret_is_in_no_question_that_a_person_sees_or_the_run_keeps() -> None:
    person = Person("Zebra-7!x+Y/z, as you say")
    spec = Spec(secrets=(SecretSpec(name="KEY"),))
    secrets = {"KEY": "Zebra-7!x+Y/z"}
    async with Session.open(spec, backend=FakeBackend(), people=People(asking=person), secrets=secrets) as session:
        await session.execute("ask_user('Is it Zebra-7!x+Y/z?')")
    assert person.heard == [Question("Is it [secret KEY]?", 1)]
    assert said_in(session) == [("Is it [secret KEY]?", 1, "[secret KEY], as you say", None)]


async def test_one_who_watches_sees_the_question() -> None:
    events: list[Event] = []
    async with Session.open(backend=FakeBackend(), people=People(asking=Presets(["a"]))) as session:
        await session.execute(ASK, on_event=events.append)
    assert [e.question for e in events if isinstance(e, PersonAskedEvent)] == ["Which account?"]


@pytest.mark.parametrize("numbers", [range(QUESTIONS + 1), (1, 1)])
async def test_a_kernel_host_that_asks_more_than_one_can_is_lost(numbers: Sequence[int]) -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend, people=People(asking=Person())) as session:
        lines = [PersonAskedEvent(number=n, question="?").model_dump_json().encode() + b"\n" for n in numbers]

        class Host(backend.made[0].door._transport.__class__):  # type: ignore[misc, name-defined]
            """Asks, and says nothing else."""

        async def pieces():  # type: ignore[no-untyped-def]
            for line in lines:
                yield line

        other = backend.made[0].door._transport
        backend.made[0].door._transport = Host(other, lambda r: pieces() if r.url.path == "/cells" else None)
        cell = await session.execute("1")
    assert cell.status == "sandbox_lost"
    assert "for one cell" in cell.text


async def test_the_longest_that_a_cell_waits_is_for_all_its_questions_and_those_at_the_same_time_count_once() -> None:
    now, given, goes_on = [0.0], list[float](), [asyncio.Event() for _ in range(3)]

    class Timed(People):
        async def answered(self, question: Question, *_: object, within_s: float, **__: object) -> str:
            given.append(within_s)
            await goes_on[int(question.text)].wait()
            return "yes"

    async def asks(number: int, *, at: float) -> None:
        now[0] = at
        questions.take(PersonAskedEvent(number=number, question=f"{number}"))
        await asyncio.sleep(0)

    async with Session.open(backend=FakeBackend()) as session, asyncio.timeout(60) as limit:
        opening = Questions.of(
            Timed(), session.journal, session.sandbox().door, 1, limit=HeldLimit(limit), on_waiting=lambda _: None
        )
        async with opening as questions:
            questions._waits = Waits(lambda: now[0])
            await asks(0, at=0)
            await asks(1, at=3000)
            for one in goes_on[:2]:
                one.set()
            await asyncio.gather(*questions._asked.values())
            await asks(2, at=5000)
    assert given == [3600, 600, 600]


async def test_an_answer_to_a_question_that_nobody_waits_for_harms_nothing() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.sandbox().door.answer(77, PersonAnswer(text="x"))
        assert (await session.execute("log(1)")).text == "1"


def test_no_answer_is_none() -> None:
    with pytest.raises(NotAsked, match="gave no answer"):
        checked_answer(None)
