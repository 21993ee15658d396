"""Cells that a person has to approve, and what people said in a run that is done again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.replay.stopped import cut

from cellwright.asking import Approval, NotAsked, Pending, Presets, Question
from cellwright.loop import Outcome, run
from cellwright.model.base import Response
from cellwright.people import People
from cellwright.record import Run, read_run, verify
from cellwright.record.records import ApprovalDecided
from cellwright.replay.answers import RecordedPeople
from cellwright.replay.plan import Rerun, plan_for
from cellwright.replay.replay import Again, replay
from cellwright.replay.resume import Given, resume
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


def answers(model: ScriptedModel, request: int = -1) -> list[str]:
    items = [item for item in model.requests[request].history if item.get("type") == "function_call_output"]
    return ["\n".join(part["text"] for part in item["output"]) for item in items]  # type: ignore[union-attr, index, misc, call-overload]


class Approver:
    """Decides as it was told to; it has seen what it was shown."""

    def __init__(self, *decisions: Approval | Exception) -> None:
        self.decisions = list(decisions)
        self.shown: list[Pending] = []
        self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def approve(self, pending: Pending) -> Approval:
        self.shown.append(pending)
        self.is_asked.set()
        if not self.decisions:
            await self.goes_on.wait()
            return YES
        decision = self.decisions.pop(0)
        if isinstance(decision, Exception):
            raise decision
        return decision


YES = Approval(approved=True)


async def driven(*turns: Response, people: People | None = None, **more: object) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    return await run("Do it.", model=model, backend=FakeBackend(), people=people, **more), model  # type: ignore[arg-type]


async def test_a_cell_that_is_denied_is_not_executed_and_the_model_is_told_why() -> None:
    approver = Approver(YES, Approval(approved=False, reason="Not that file."), YES)
    outcome, model = await driven(
        calls("x = 1"), calls("x = 2"), calls("log(x)"), says("Done."), people=People(approver=approver, approve="each")
    )
    assert answers(model)[1:] == [
        "The cell was not executed: a person denied it. The reason given: Not that file.",
        "1",
    ]
    run_ = read_run(outcome.run_dir)
    assert [cell.status for cell in run_.cells] == ["ok", "denied", "ok"]
    assert [cell.closed.posted for cell in run_.stored_cells if cell.closed] == [True, False, True]
    decided = [r for r in run_.records if isinstance(r, ApprovalDecided)]
    assert [(r.cell, r.approved, r.reason) for r in decided] == [
        (1, True, None),
        (2, False, "Not that file."),
        (3, True, None),
    ]
    assert [(p.cell, p.code, p.language) for p in approver.shown] == [
        (1, "x = 1", "python"), (2, "x = 2", "python"), (3, "log(x)", "python"),
    ]  # fmt: skip
    assert approver.shown[0].screen is None
    assert approver.shown[1].screen == run_.cells[0].screen_after


@pytest.mark.parametrize(
    ("people", "why"),
    [
        (People(approve="each"), "Nobody can approve it in this run."),
        (People(approve="each", approver=Approver(NotAsked("He has left."))), "He has left."),
        (People(approve="each", approver=Approver(OSError())), "Nobody could be asked: OSError."),
        (People(approve="each", approver=Approver(), longest_s=0.01), "Nobody has decided within"),
        (
            People(approve="each", approver=Approver(Approval(approved=False))),
            "a person denied it. No reason was given.",
        ),
    ],
)
async def test_what_is_not_approved_is_not_executed(people: People, why: str) -> None:
    async with Session.open(backend=FakeBackend(), people=people) as session:
        cell = await session.execute("x = 1")
        assert (cell.status, why in cell.text) == ("denied", True)


async def test_a_cell_that_waits_for_an_approval_can_be_interrupted_and_was_never_posted() -> None:
    approver = Approver()
    async with Session.open(backend=FakeBackend(), people=People(approver=approver, approve="each")) as session:
        executing = asyncio.ensure_future(session.execute("x = 1"))
        await approver.is_asked.wait()
        await session.interrupt()
        cell = await executing
    assert (cell.status, "before it was executed" in cell.text) == ("interrupted", True)
    assert read_run(session.run_dir).stored_cells[0].closed.posted is False  # type: ignore[union-attr]


async def test_a_session_that_is_closed_while_a_cell_waits_for_an_approval_closes_it() -> None:
    approver = Approver()
    async with Session.open(backend=FakeBackend(), people=People(approver=approver, approve="each")) as session:
        executing = asyncio.ensure_future(session.execute("x = 1"))
        await approver.is_asked.wait()
    assert "The session was closed before this cell was executed." in (await executing).text
    assert verify(session.run_dir).status == "whole"


async def test_the_deadline_counts_from_the_approval() -> None:
    """The cell has 0.05 s from its request's arrival, start included, and is approved after 0.2."""

    class Later:
        async def approve(self, pending: Pending) -> Approval:  # noqa: ARG002 - it is all the same
            await asyncio.sleep(0.2)
            return YES

    async with Session.open(backend=FakeBackend(), people=People(approver=Later(), approve="each")) as session:
        since = asyncio.get_running_loop().time()
        cell = await session.execute("log(1)", deadline_s=0.05, since=since)
    assert (cell.status, cell.text) == ("ok", "1")


# Again from the record


async def recorded() -> Run:
    people = People(
        asking=Presets(["blue", "red"]),
        approver=Approver(YES, YES, Approval(approved=False, reason="No."), YES),
        approve="each",
    )
    async with Session.open(backend=FakeBackend(), people=people) as session:
        await session.execute("a = ask_user('Which?'); log(a)")
        await session.execute("b = ask_user('Which?'); log(b)")
        await session.execute("b = 'spoiled'")
        await session.execute("log(a + b)")
    return read_run(session.run_dir)


async def test_a_replay_asks_nobody_and_has_every_answer_and_every_denial_of_the_record() -> None:
    run_ = await recorded()
    replayed = await replay(run_, Again(), backend=FakeBackend())
    assert [cell.verdict for cell in replayed.cells] == ["same"] * 4


async def test_a_cell_that_could_ask_nobody_is_told_so_again() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("ask_user('Which?')")
    replayed = await replay(read_run(session.run_dir), Again(), backend=FakeBackend())
    assert replayed.cells[0].verdict == "same"


async def test_a_question_that_the_record_does_not_know_has_no_answer_there() -> None:
    people = RecordedPeople(await recorded())
    for question in (Question("Which one?", 1), Question("Which?", 3), Question("Which?", None)):
        with pytest.raises(NotAsked, match="The record has no answer to this question"):
            await people.ask(question)
    assert await people.ask(Question("Which?", 2)) == "red"
    with pytest.raises(NotAsked):
        await people.ask(Question("Which?", 2))


async def test_cells_that_are_brought_back_have_the_answers_of_their_own_and_new_ones_ask_a_person() -> None:
    run_ = await recorded()
    plan = plan_for(run_, "safe")
    people = People(asking=Presets(["green"]))
    async with resume(run_.folder, plan, Given(), backend=FakeBackend(), people=people) as resumed:
        assert (await resumed.session.execute("log(a + b)")).text == "bluered"
        assert (await resumed.session.execute("log(ask_user('Which?'))")).text == "green"


@pytest.mark.parametrize("rerun", ["safe", "all"])
async def test_a_cell_that_waited_for_its_approval_when_all_was_killed_is_never_executed_without_one(
    rerun: Rerun, tmp_path: Path
) -> None:
    people = People(approver=Approver(YES, YES), approve="each")
    outcome, _ = await driven(calls("x = 1"), calls("x = 2"), says("Done."), people=people)
    waits = [n for n, r in enumerate(read_run(outcome.run_dir).records) if r.type == "approval_decided"][1]
    cut(outcome.run_dir, tmp_path / "killed", waits)
    run_ = read_run(tmp_path / "killed")
    assert [cell.closed is None for cell in run_.stored_cells] == [False, True]
    plan = plan_for(run_, rerun)
    assert [planned.cell.opened.number for planned in plan.cells] == [1]
    async with resume(run_.folder, plan, Given(), backend=FakeBackend()) as resumed:
        assert (await resumed.session.execute("log(x)")).text == "1"
    cell = read_run(run_.folder).cells[1]
    assert (cell.status, cell.text) == (
        "interrupted",
        "This cell waited for a person's approval when the program that recorded it was stopped. Nothing of it ran.",
    )
