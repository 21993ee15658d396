"""A cell that was executed again, with the world to answer, has two answers to the same request: which count."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.outgoing import Outgoing
from cellwright.record import Journal, read_run
from cellwright.record.journal import open_run
from cellwright.record.records import (
    CellClosed,
    CellOpened,
    CellRebuilt,
    Exchanged,
    KeptBody,
    RequestSent,
    SessionOpened,
)
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.network import first_of_cells, last_of_cells, tape_of
from cellwright.replay.plan import plan_for
from cellwright.replay.replay import Again, replay
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

NOTHING = KeptBody(size_bytes=0, sha256=hashlib.sha256(b"").hexdigest())
BODY = Body(0, NOTHING.sha256, b"")
SESSION = SessionOpened(session_id="s", ready_ms=1)


def opened(number: int) -> CellOpened:
    return CellOpened(number=number, language="python", code="x", started_at="2026-11-29T16:17:24.000Z")


def got(cell: int | None, status: int, *, rebuilt: bool = False) -> Exchanged:
    place = {"method": "GET", "host": "x.test", "port": 80, "target": "/"}
    return Exchanged(cell=cell, rebuilt=rebuilt, request_body=NOTHING, body=NOTHING, status=status, **place)


def made(*records: object) -> Path:
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        for record in records:
            journal.append(record)  # type: ignore[arg-type]
    return journal.folder


TWICE = (
    *(SESSION, opened(1), got(1, 201), got(None, 202), opened(2), got(2, 203)),
    *(
        SESSION,
        got(1, 204, rebuilt=True),
        CellRebuilt(number=1, status="ok", is_live=True),
        got(None, 205, rebuilt=True),
    ),
    *(CellRebuilt(number=2, reason="Left."), opened(3), got(3, 206)),
    *(SESSION, got(1, 207, rebuilt=True)),  # it ended before the cell had
)
ENDED = [CellClosed(number=number, status="ok", duration_ms=1) for number in (1, 2, 3)]


def test_a_replay_is_given_what_each_cell_was_first_but_for_a_lost_one_that_was_executed_again() -> None:
    def statuses(*records: object) -> list[int]:
        return [one.status for one in first_of_cells(read_run(made(*records))) if isinstance(one, Exchanged)]

    assert statuses(*TWICE, *ENDED) == [201, 202, 203, 206]
    assert statuses(*TWICE, *ENDED[1:]) == [204, 205, 203, 206]
    lost = CellClosed(number=1, status="sandbox_lost", duration_ms=1)
    assert statuses(*TWICE, lost, *ENDED[1:]) == [204, 205, 203, 206]


def test_what_a_cell_was_given_last_counts_in_the_order_of_cells() -> None:
    statuses = [one.status for one in last_of_cells(read_run(made(*TWICE))) if isinstance(one, Exchanged)]
    assert statuses == [204, 205, 203, 206]


async def test_replay_is_answered_as_each_cell_was_when_it_was_first_executed() -> None:
    tape = tape_of(read_run(made(*TWICE, *ENDED)), lambda _, *, matters: None, MayDiffer.read())  # noqa: ARG005 - nobody is told
    left = [one.status for answers in tape._left.values() for one in answers]
    assert left == [201, 202, 203, 206]


def test_what_goes_out_of_a_cell_that_is_brought_back_is_marked_however_late_it_ends() -> None:
    executing: list[int | None] = [2]
    with open_run(session_id="s", driver="library", spec=Spec()) as journal:
        outgoing = Outgoing(journal, lambda: executing[0], had=2)
        request = Request("POST", "x.test", 80, "/", ())
        cell = outgoing.request(request)
        executing[0] = None
        outgoing.request(request)
        outgoing.rebuilds = False
        outgoing.response(Traffic(request, BODY, 200, "", (), BODY), cell)
        outgoing.request(request)
        executing[0] = 3
        outgoing.request(request)
    marks = [
        (one.cell, one.rebuilt) for one in read_run(journal.folder).records if isinstance(one, (RequestSent, Exchanged))
    ]
    assert marks == [(2, True), (None, True), (2, True), (None, False), (3, False)]


async def test_session_that_goes_on_marks_no_more() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
        session.conclude("failed")
    plan = plan_for(read_run(session.run_dir), "safe")
    async with resume(session.run_dir, plan, Given(), backend=FakeBackend()) as resumed:
        outgoing = resumed.session._outgoing
        assert outgoing is not None
        outgoing.unread("x.test", 443)
    (sent,) = [one for one in read_run(session.run_dir).records if isinstance(one, RequestSent)]
    assert (sent.cell, sent.rebuilt, sent.taped) == (None, False, False)


@pytest.mark.parametrize(("code", "verdict"), [("log(1)", "same"), ("1 / 0", "differs")])
async def test_cell_that_was_lost_has_nothing_to_be_held_against(code: str, verdict: str) -> None:
    async with Session.open(backend=FakeBackend()) as session:
        session.conclude(None)
    with Journal.reopen(session.run_dir) as journal:
        journal.append(opened(1).model_copy(update={"code": code}))
        journal.leave()
    replayed = await replay(read_run(session.run_dir), Again(), backend=FakeBackend())
    assert [cell.verdict for cell in replayed.cells] == [verdict]
