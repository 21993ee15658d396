"""What is about to leave a session's sandbox, where a person has to approve it."""

from __future__ import annotations

import asyncio
import gc

import pytest
from tests.unit.test_approvals import YES, Approver

from cellwright.asking import Approval, NotAsked, Pending, Question
from cellwright.egress.leaving import Effect
from cellwright.leaving import PLACES, Leaving
from cellwright.people import People
from cellwright.record import read_run
from cellwright.record.records import ApprovalDecided
from cellwright.replay.answers import RecordedPeople
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

POST = Effect("POST", "shop.test:80", "/order", is_opaque=False)
TUNNEL = Effect("CONNECT", "shop.test:443", "", is_opaque=True)


class Connection:
    """One on which something waits."""

    def __init__(self, ended: list[Effect], effect: Effect) -> None:
        self.ended, self.effect = ended, effect
        self.hung_up = False

    def has_hung_up(self) -> bool:
        return self.hung_up

    def end_unsaid(self) -> None:
        self.ended.append(self.effect)


class Left:
    """What leaves a session, as its proxy would ask, while it executes nothing."""

    def __init__(self, session: Session) -> None:
        assert session._executor.leaving is not None
        self.leaving: Leaving = session._executor.leaving
        self.ended: list[Effect] = []
        self.connections: list[Connection] = []

    async def may(self, effect: Effect = POST, *, taped: bool = False) -> str | None:
        self.connections.append(connection := Connection(self.ended, effect))
        return await self.leaving(effect, connection, taped=taped)


def session_of(*decisions: Approval | Exception, longest_s: float = 60.0):  # type: ignore[no-untyped-def]
    approver = Approver(*decisions)
    people = People(approver=approver, approve="effects", longest_s=longest_s)
    return approver, Session.open(backend=FakeBackend(), people=people)


async def test_cells_are_executed_unasked_and_what_they_send_is_asked_about() -> None:
    approver, opening = session_of(YES)
    async with opening as session:
        assert (await session.execute("log(1)")).text == "1"
        assert approver.shown == []
        assert await Left(session).may() is None
    (pending,) = approver.shown
    assert (pending.effect, pending.place, pending.cell) == ("POST shop.test:80/order", "shop.test:80", None)


async def test_a_person_is_asked_once_for_each_cell_and_place() -> None:
    approver, opening = session_of(YES, YES, YES)
    async with opening as session:
        left = Left(session)
        assert await asyncio.gather(*(left.may() for _ in range(5))) == [None] * 5
        assert await left.may(TUNNEL) is None
        assert len(approver.shown) == 2
        await session.execute("1")
        assert await left.may() is None
    assert len(approver.shown) == 3


async def test_what_one_cell_was_approved_and_still_says_ends_with_the_next_cell_once() -> None:
    _, opening = session_of(YES, YES)
    async with opening as session:
        left = Left(session)
        await left.may(TUNNEL)
        await left.may(POST)
        assert left.ended == []
        await session.execute("1")
        await session.execute("1")
        assert sorted(effect.method for effect in left.ended) == ["CONNECT", "POST"]


async def test_connections_that_are_over_are_not_kept_until_the_next_cell() -> None:
    _, opening = session_of(YES)
    async with opening as session:
        left = Left(session)
        for _ in range(10):
            await left.may()
        left.connections.clear()
        gc.collect()
        assert len(left.leaving._approved_on) == 0


async def test_what_was_given_up_while_it_waited_is_not_sent_and_may_be_tried_again() -> None:
    approver, opening = session_of()
    async with opening as session:
        left = Left(session)
        leaving = asyncio.ensure_future(left.may())
        await approver.is_asked.wait()
        left.connections[0].hung_up = True
        approver.goes_on.set()
        assert await leaving == (
            "shop.test:80: when it was approved, whoever was about to send had hung up. Nothing was sent."
        )
        assert await left.may() is None


@pytest.mark.parametrize(
    ("decision", "said", "by_person"),
    [
        (
            Approval(approved=False, reason="Too dear."),
            "a person denied what was to be sent. Nothing was sent. The reason given: Too dear.",
            True,
        ),
        (Approval(approved=False), "No reason was given.", True),
        (NotAsked("He has left."), "has to be approved, and was not. Nothing was sent. He has left.", False),
    ],
)
async def test_what_is_denied_is_told_and_recorded(decision: Approval | Exception, said: str, by_person: bool) -> None:
    _, opening = session_of(decision)
    async with opening as session:
        assert said in str(await Left(session).may())
    (decided,) = [r for r in read_run(session.run_dir).records if isinstance(r, ApprovalDecided)]
    assert (decided.place, decided.approved, decided.by_person) == ("shop.test:80", False, by_person)


async def test_nobodys_decision_in_time_is_none() -> None:
    _, opening = session_of(longest_s=0.01)
    async with opening as session:
        assert "has to be approved, and was not" in str(await Left(session).may())


async def test_more_places_than_a_person_is_asked_about_are_refused_unasked() -> None:
    approver, opening = session_of(*[YES] * (PLACES + 5))
    async with opening as session:
        left = Left(session)
        said = [await left.may(Effect("POST", f"h{n}.test:80", "/", is_opaque=False)) for n in range(PLACES + 2)]
    assert said[:PLACES] == [None] * PLACES
    assert all("a person is asked about 20 places for one cell" in str(one) for one in said[PLACES:])
    assert len(approver.shown) == PLACES


async def test_under_other_rules_nothing_that_leaves_is_asked_about() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        assert await Left(session).may() is None
        assert await Left(session).may(TUNNEL) is None
        await session.execute("1")


async def test_a_session_that_is_closed_while_something_waits_lets_nothing_out() -> None:
    approver, opening = session_of()
    async with opening as session:
        leaving = asyncio.ensure_future(Left(session).may())
        await approver.is_asked.wait()
    assert await leaving == "shop.test:80: nobody had decided when the next cell began. Nothing was sent."


async def test_a_cell_that_ends_while_what_it_sends_waits_ends_that_as_denied() -> None:
    class Answering:
        def __init__(self) -> None:
            self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()

        async def ask(self, question: Question) -> str | None:
            self.is_asked.set()
            await self.goes_on.wait()
            return question.text

    asking, approver = Answering(), Approver()
    people = People(asking=asking, approver=approver, approve="effects")
    async with Session.open(backend=FakeBackend(), people=people) as session:
        executing = asyncio.ensure_future(session.execute("log(ask_user('Which?'))"))
        await asking.is_asked.wait()
        leaving = asyncio.ensure_future(Left(session).may())
        await approver.is_asked.wait()
        asking.goes_on.set()
        assert (await executing).status == "ok"
        assert str(await leaving) == (
            "shop.test:80: what was to be sent has to be approved, and was not. Nothing was sent. Nobody had decided when the cell ended, or "
            "when the time for that was over."
        )
    (decided,) = [r for r in read_run(session.run_dir).records if isinstance(r, ApprovalDecided)]
    assert (decided.cell, decided.approved, decided.by_person) == (1, False, False)


async def test_what_a_cell_was_approved_holds_no_more_while_the_next_one_still_waits_for_the_screen() -> None:
    class Sending:
        async def ask(self, question: Question) -> str | None:
            assert await left.may() is None
            return question.text

    approver = Approver(YES)
    people = People(asking=Sending(), approver=approver, approve="effects")
    async with Session.open(backend=FakeBackend(), people=people) as session:
        left, screen = Left(session), asyncio.Event()
        assert (await session.execute("log(ask_user('Which?'))")).status == "ok"
        approver.is_asked.clear()
        session._executor.screen.taken = screen.wait  # type: ignore[method-assign, assignment]
        executing = asyncio.ensure_future(session.execute("1"))
        await asyncio.sleep(0)
        assert session.executing == 2
        leaving = asyncio.ensure_future(left.may())
        await approver.is_asked.wait()
        screen.set()
        await executing
        assert await leaving == "shop.test:80: nobody had decided when the next cell began. Nothing was sent."
    assert len(approver.shown) == 2


async def test_of_several_that_wait_in_one_cell_the_first_decision_does_not_end_the_waiting_for_the_others() -> None:
    class Slow(Approver):
        def __init__(self) -> None:
            super().__init__()
            self.decided: dict[str | None, asyncio.Future[Approval]] = {}
            self.asks, self.both_wait = asyncio.Event(), asyncio.Event()

        async def approve(self, pending: Pending) -> Approval:
            self.decided[pending.place] = asyncio.get_running_loop().create_future()
            if len(self.decided) == 2:
                self.both_wait.set()
            return await self.decided[pending.place]

        async def ask(self, question: Question) -> str | None:
            self.asks.set()
            await self.both_wait.wait()
            waited_for.append(session._ongoing and session._ongoing.waits_for)
            self.decided["shop.test:80"].set_result(YES)
            assert await leaving[0] is None
            waited_for.append(session._ongoing and session._ongoing.waits_for)
            self.decided["shop.test:443"].set_result(YES)
            assert await leaving[1] is None
            waited_for.append(session._ongoing and session._ongoing.waits_for)
            return question.text

    slow, waited_for = Slow(), list[str | None]()
    people = People(asking=slow, approver=slow, approve="effects")
    async with Session.open(backend=FakeBackend(), people=people) as session:
        executing = asyncio.ensure_future(session.execute("log(ask_user('Which?'))"))
        await slow.asks.wait()
        leaving = [asyncio.ensure_future(Left(session).may(effect)) for effect in (POST, TUNNEL)]
        assert (await executing).status == "ok"
    assert waited_for == ["effect", "effect", "answer"]


async def test_a_replay_has_the_denials_of_the_record() -> None:
    _, opening = session_of(Approval(approved=False, reason="No."), YES)
    async with opening as session:
        left = Left(session)
        await left.may()
        await left.may(TUNNEL)
    people = RecordedPeople(read_run(session.run_dir)).people
    assert people.approve == "effects"
    async with Session.open(backend=FakeBackend(), people=people) as again:
        left = Left(again)
        assert "The reason given: No." in str(await left.may(taped=True))
        assert await left.may(TUNNEL, taped=True) is None


async def test_cells_that_are_brought_back_ask_the_record_and_nobody_else() -> None:
    class Record(Approver):
        async def ask(self, question: object) -> str | None:
            raise AssertionError(question)

    record, person = Record(YES), Approver(YES)
    people = People(approver=person, approve="effects", recorded=record)
    async with Session.open(backend=FakeBackend(), people=people) as session:
        assert await Left(session).may(taped=True) is None
        await session.execute("1")
        assert await Left(session).may() is None
    shown: list[list[Pending]] = [record.shown, person.shown]
    assert [len(one) for one in shown] == [1, 1]
    assert len([r for r in read_run(session.run_dir).records if isinstance(r, ApprovalDecided)]) == 1
