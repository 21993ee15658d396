"""A person stops a run while its model is asked over real HTTP: it ends in order and at once, leaves nothing behind, and can go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.faulty_server import Fault, FaultyServer
from tests.sockets.matrix import Played, wrong_with_journal
from tests.waiting import GUARD_S, until

from cellwright.budget import Budget
from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.loop import Outcome, run
from cellwright.model import limiter
from cellwright.model.asking import Asking, Retrying
from cellwright.model.limiter import Limiter
from cellwright.model.responses import ResponsesModel
from cellwright.progress import Arriving, AskedAgain, Progress, TurnStarted
from cellwright.record.reader import read_run
from cellwright.record.records import HistoryShortened, ModelFailed
from cellwright.record.verdict import verify
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.steering import Steering
from cellwright.terms import Sending
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

STOPPED = (
    "The request was given up when a person stopped the run. What was executed before is recorded. A run "
    "that is resumed asks again."
)
LOOKS = "```python\nlog('first')\n```\n---\nexpect: first\n\nDone.\n"
LONG = "```python\nlog('x' * 9_000)\n```\n---\n```python\nlog('y' * 9_000)\n```\n---\nDone.\n---\nwrap-up\n\nSo far I looked.\n"
STALLED = PlannedFault("stalled")
"""Nothing more comes for ten minutes, which is longer than any guard; it ends before only where the client hangs up."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulator() -> AsyncIterator[Emulator]:
    async with Emulator(Script.parse("Nothing.")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[FaultyServer]:
    async with FaultyServer() as running:
        yield running


def model_at(base_url: str, **asking: object) -> ResponsesModel:
    return ResponsesModel("m", base_url=base_url, api_key="k", asking=replace(Asking(), **asking))  # type: ignore[arg-type]


async def stopped(
    model: ResponsesModel, steering: Steering, tell: Callable[[Progress], None] | None = None, **more: object
) -> Outcome:
    """Do a run that somebody stops; return when nothing of it is left, on this side of its connection and on the other."""
    before = asyncio.all_tasks()
    doing = run("Do it.", model=model, backend=FakeBackend(), steering=steering, on_progress=tell, **more)  # type: ignore[arg-type]
    outcome = await asyncio.wait_for(doing, GUARD_S)
    await until(lambda: asyncio.all_tasks() <= before)  # the server's, too: it waits until the client has hung up
    await model.close()
    assert list(wrong_with_journal(Played(outcome, read_run(outcome.run_dir), (), ()))) == []
    return outcome


def failed(outcome: Outcome) -> list[tuple[int, str]]:
    return [(one.turn, one.reason) for one in read_run(outcome.run_dir).records if isinstance(one, ModelFailed)]


async def resumed(outcome: Outcome, base_url: str) -> Outcome:
    model = model_at(base_url)
    plan = plan_for(read_run(outcome.run_dir), "safe")
    doing = resume_by_model(outcome.run_dir, plan, Given(), Driving(model=model), backend=FakeBackend())
    try:
        again = await asyncio.wait_for(doing, GUARD_S)
    finally:
        await model.close()
    assert verify(outcome.run_dir).status == "whole"
    return again


def stops_at_turn(steering: Steering, number: int) -> Callable[[Progress], None]:
    """Return what stops as soon as this turn's request is on its way, which is never answered."""

    def tell(progress: Progress) -> None:
        if isinstance(progress, TurnStarted) and progress.number == number:
            asyncio.get_running_loop().call_soon(steering.stop, "Enough.")

    return tell


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("turn", [1, 2])
async def test_stop_gives_up_a_request_that_is_never_answered(emulator: Emulator, streams: bool, turn: int) -> None:
    emulator.play(Script.parse(LOOKS).with_faults([replace(STALLED, turn=turn)]))
    steering = Steering()

    async def stops() -> None:
        await until(lambda: len(emulator.seen) == turn)
        steering.stop("Enough.")

    model = model_at(emulator.base_url, streams=streams)
    async with asyncio.TaskGroup() as group:
        group.create_task(stops())
        outcome = await stopped(model, steering)
    assert (outcome.status, outcome.reason, outcome.turns) == ("cancelled", "Enough.", turn - 1)
    assert failed(outcome) == [(turn, STOPPED)]
    again = await resumed(outcome, emulator.base_url)
    assert (again.status, again.summary, again.turns) == ("done", "Done.", 2)
    assert len(read_run(outcome.run_dir).cells) == 1, "no cell was executed twice"


async def test_stop_gives_up_a_request_before_anything_of_it_was_sent(emulator: Emulator) -> None:
    emulator.play(Script.parse(LOOKS))
    steering = Steering()

    def tell(progress: Progress) -> None:
        if isinstance(progress, TurnStarted):
            steering.stop()

    outcome = await stopped(model_at(emulator.base_url), steering, tell)
    assert (outcome.status, outcome.reason) == ("cancelled", "It was stopped by a person.")
    assert (failed(outcome), emulator.requests) == ([(1, STOPPED)], [])


async def test_stop_gives_up_a_response_in_the_middle_of_its_stream(emulator: Emulator) -> None:
    words = " ".join(f"word{number}" for number in range(80))
    emulator.play(Script.parse(f"turns:\n- say: {words}\n  pace: 0.01\n", form="yaml"))
    steering, heard = Steering(), list[str]()

    def tell(progress: Progress) -> None:
        if isinstance(progress, Arriving):
            heard.append(progress.delta.text)
            steering.stop("Enough.")

    outcome = await stopped(model_at(emulator.base_url), steering, tell)
    assert (outcome.status, outcome.reason, outcome.summary) == ("cancelled", "Enough.", None)
    assert len("".join(heard)) < len(words), "the rest was not waited for"
    assert failed(outcome) == [(1, STOPPED)]
    assert (await resumed(outcome, emulator.base_url)).summary == words


async def test_stop_ends_the_wait_between_two_tries(server: FaultyServer) -> None:
    server.play(LOOKS)
    server.has(Fault("status", 503, headers={"retry-after-ms": "600000"}))
    steering, told = Steering(), list[str]()

    def tell(progress: Progress) -> None:
        if isinstance(progress, AskedAgain):
            told.append(progress.reason)
            asyncio.get_running_loop().call_soon(steering.stop)

    patient = Retrying(attempts=4, most_s=10_000.0)
    outcome = await stopped(model_at(server.base_url, retrying=patient), steering, tell)
    assert (outcome.status, len(told), len(server.came)) == ("cancelled", 1, 1)
    assert failed(outcome) == [(1, STOPPED)]
    assert (await resumed(outcome, server.base_url)).status == "done"


async def test_stop_ends_the_wait_at_the_gate_and_gives_the_place_in_it_back(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.play(Script.parse(LOOKS))
    moment, waits, steering = [0.0], asyncio.Event(), Steering()

    async def sleep(seconds: float) -> None:
        assert seconds > 0
        waits.set()
        await asyncio.Event().wait()  # until it is given up: the clock is the test's

    gate = Limiter(0.001, clock=lambda: moment[0], sleep=sleep)
    monkeypatch.setattr("cellwright.model.responses.limiter_of", lambda *_: gate)
    (await gate.turn()).sent()

    async def stops() -> None:
        await waits.wait()
        steering.stop()

    async with asyncio.timeout(GUARD_S), asyncio.TaskGroup() as group:
        group.create_task(stops())
        outcome = await stopped(model_at(emulator.base_url), steering)
    assert (outcome.status, failed(outcome), emulator.requests) == ("cancelled", [(1, STOPPED)], [])
    moment[0] += 10_000.0
    async with asyncio.timeout(GUARD_S):
        assert (await gate.turn()).waited_s == 0.0, "nobody stands before"
    monkeypatch.setattr("cellwright.model.responses.limiter_of", limiter.limiter_of)
    assert (await resumed(outcome, emulator.base_url)).status == "done"


async def test_stop_of_a_request_that_left_has_the_gate_open_for_the_next_one(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator.play(Script.parse(LOOKS).with_faults([STALLED]))
    moment, steering = [0.0], Steering()
    gate = Limiter(10.0, clock=lambda: moment[0])
    monkeypatch.setattr("cellwright.model.responses.limiter_of", lambda *_: gate)

    async def stops() -> None:
        await until(lambda: emulator.seen)
        steering.stop()

    async with asyncio.TaskGroup() as group:
        group.create_task(stops())
        outcome = await stopped(model_at(emulator.base_url), steering)
    assert outcome.status == "cancelled"
    moment[0] += 1.0
    async with asyncio.timeout(GUARD_S):
        assert (await gate.turn()).waited_s == 0.0


async def test_stop_gives_up_the_last_words_of_a_run_whose_budget_is_spent(emulator: Emulator) -> None:
    script = Script.parse(LONG)
    emulator.play(replace(script, wrap_up=replace(script.wrap_up, faults=(replace(STALLED, turn=None),))))
    steering = Steering()
    model = model_at(emulator.base_url)
    tell = stops_at_turn(steering, 2)
    outcome = await stopped(model, steering, tell, budget=Budget(turns=1))
    assert (outcome.status, outcome.reason, outcome.summary) == ("cancelled", "Enough.", None)
    assert failed(outcome) == [(2, STOPPED)]


async def test_stop_gives_up_a_summary_of_the_history_and_nothing_of_the_history_goes(emulator: Emulator) -> None:
    script = Script.parse(LONG)
    emulator.play(replace(script, wrap_up=replace(script.wrap_up, faults=(replace(STALLED, turn=None),))))
    steering = Steering()
    model = model_at(emulator.base_url)
    outcome = await stopped(model, steering, stops_at_turn(steering, 3), sending=Sending(compact_at=4_000))
    assert (outcome.status, outcome.reason, outcome.turns) == ("cancelled", "Enough.", 2)
    assert failed(outcome) == [(3, STOPPED)]
    assert [one for one in read_run(outcome.run_dir).records if isinstance(one, HistoryShortened)] == []
    again = await resumed(outcome, emulator.base_url)
    assert (again.status, again.summary) == ("done", "Done.")
    shortened = [one.summary for one in read_run(outcome.run_dir).records if isinstance(one, HistoryShortened)]
    assert shortened == ["So far I looked."]


async def test_run_that_is_cancelled_from_outside_has_its_request_recorded_as_failed(emulator: Emulator) -> None:
    emulator.play(Script.parse(LOOKS).with_faults([STALLED]))
    before, model, folders = asyncio.all_tasks(), model_at(emulator.base_url), list[Progress]()
    running = asyncio.ensure_future(run("Do it.", model=model, backend=FakeBackend(), on_progress=folders.append))
    await until(lambda: emulator.seen)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, GUARD_S)
    await until(lambda: asyncio.all_tasks() <= before)
    await model.close()
    run_dir = folders[0].run_dir  # type: ignore[union-attr]
    recorded = read_run(run_dir)
    reasons = [one.reason for one in recorded.records if isinstance(one, ModelFailed)]
    assert reasons == [STOPPED.replace("a person stopped the run", "the run was interrupted from outside")]
    assert (recorded.status, verify(run_dir).status) == ("cancelled", "whole")
