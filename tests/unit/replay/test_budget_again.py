"""What a run was told of its budget and of getting nowhere is in its conversation when it goes on, as it was sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.replay.stopped import cut, must_be_legal, resumed

from cellwright.budget import Budget
from cellwright.conversation import conversation_of
from cellwright.errors import ModelError
from cellwright.loop import Outcome, run
from cellwright.model.base import Response
from cellwright.progress import Progress, TurnStarted
from cellwright.record import Run, read_run
from cellwright.record.records import ModelRequest
from cellwright.record.stored import digest_of
from cellwright.replay.fork import fork
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.secrets import Secrets
from cellwright.stuck import Patience
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says

SAME = "log('same')"


async def driven(*turns: Response | Exception, budget: Budget, patience: Patience | None = None) -> Outcome:
    model = ScriptedModel(turns)
    return await run("Do it.", model=model, budget=budget, patience=patience, backend=FakeBackend())


async def gone_on(folder: Path, *turns: Response | Exception, budget: Budget) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    plan = plan_for(read_run(folder), "all")
    driving = Driving(model=model, budget=budget)
    outcome = await resume_by_model(folder, plan, Given(), driving, backend=FakeBackend())
    for request in model.requests:
        must_be_legal(request)
    return outcome, model


def must_read_back(run: Run) -> int:
    """Each request's items, read back from the records before it, are those that it was sent with; return how many it had."""
    asked = [(place, one) for place, one in enumerate(run.records) if isinstance(one, ModelRequest)]
    for place, request in asked:
        read = conversation_of(replace(run, lines=run.lines[:place]))
        assert tuple(digest_of(item) for item in read.sent) == request.input
    return len(asked)


def texts(items: Any) -> list[str]:
    return [item["content"][0]["text"] for item in items if item.get("role") == "user"]


async def test_warnings_nudges_and_the_summary_are_read_back_as_they_were_sent_and_so_again_when_it_went_on():
    spent = await driven(*(calls(SAME) for _ in range(4)), says("Half."), budget=Budget(turns=4))
    assert (spent.status, spent.summary) == ("budget", "Half.")
    assert must_read_back(read_run(spent.run_dir)) == 5
    outcome, model = await gone_on(
        spent.run_dir, *(calls(f"log({n})") for n in range(4)), says("More."), budget=Budget(turns=4)
    )
    assert (outcome.status, outcome.summary, outcome.turns) == ("budget", "More.", 10)
    whole = read_run(spent.run_dir)
    assert must_read_back(whole) == 10
    first_of_more = model.requests[0].history
    sent = next(one for one in whole.records if isinstance(one, ModelRequest) and one.turn == 5).input
    assert tuple(digest_of(item) for item in first_of_more[: len(sent)]) == sent, (
        "what the server has cached stays as it was"
    )
    told = [text[:40] for text in texts(first_of_more)[1:]]
    assert told == [
        "The same cell was executed 3 times in a ",
        "This is left of the budget of this task:",
        "The budget of this task is spent (4 turn",
        "This run had ended budget (The budget wa",
    ]


async def test_run_that_went_on_with_a_larger_budget_can_finish():
    spent = await driven(calls("x = 1"), says("Half."), budget=Budget(turns=1))
    outcome, model = await gone_on(spent.run_dir, calls("log(x)"), says("All."), budget=Budget(turns=5))
    assert (outcome.status, outcome.summary, outcome.cells) == ("done", "All.", 1)
    assert "is resumed with a new budget: calls are executed again." in texts(model.requests[0].history)[-1]


async def test_summary_with_calls_is_answered_that_nothing_was_executed():
    spent = await driven(calls("x = 1"), calls("x = 2", text="One more."), budget=Budget(turns=1))
    outcome, model = await gone_on(spent.run_dir, says("Done."), budget=Budget(turns=5))
    assert (outcome.status, outcome.cells) == ("done", 0)
    answers = [item for item in model.requests[0].history if item.get("type") == "function_call_output"]
    assert "Not executed: the budget was spent, and only a summary was asked for." in str(answers[-1])


async def test_summary_that_never_came_leaves_what_was_asked():
    spent = await driven(calls("x = 1"), ModelError("Gone."), budget=Budget(turns=1))
    assert must_read_back(read_run(spent.run_dir)) == 2
    outcome, model = await gone_on(spent.run_dir, says("Done."), budget=Budget(turns=5))
    assert (outcome.status, must_read_back(read_run(spent.run_dir))) == ("done", 3)
    assert len(texts(model.requests[0].history)) == 3


async def test_spent_tokens_are_counted_anew_by_a_run_that_goes_on():
    spent = await driven(*(calls(f"log({n})") for n in range(90)), budget=Budget(turns=90, tokens=20_000))
    assert spent.status == "budget"
    outcome, _ = await gone_on(spent.run_dir, calls("log('more')"), says("Done."), budget=Budget(tokens=40_000))
    assert (outcome.status, must_read_back(read_run(spent.run_dir)) > 2) == ("done", True)


async def test_stuck_run_goes_on_and_is_told_anew():
    stuck = await driven(*(calls(SAME) for _ in range(4)), budget=Budget(), patience=Patience(2, 3, 4))
    assert stuck.status == "stuck"
    outcome, model = await gone_on(stuck.run_dir, *(calls(SAME) for _ in range(3)), says("Done."), budget=Budget())
    assert (outcome.status, must_read_back(read_run(stuck.run_dir))) == ("done", 8)
    assert [len(texts(request.history)) for request in model.requests] == [4, 4, 4, 5]


async def test_run_of_an_earlier_version_has_its_summary_left_out():
    """It was asked for without a note."""
    spent = await driven(calls("x = 1"), says("Half."), budget=Budget(turns=1))
    whole = read_run(spent.run_dir)
    kept = tuple(line for line in whole.lines if not (line.record.type == "note" and line.record.topic == "wrap_up"))
    read = conversation_of(replace(whole, lines=kept))
    assert [item.get("type") for item in read.history] == ["message", "function_call"]
    assert (read.turns, read.last_words) == (2, None)


async def test_run_that_is_killed_at_any_record_goes_on_with_what_it_was_told(tmp_path: Path):
    spent = await driven(*(calls(SAME) for _ in range(4)), says("Half."), budget=Budget(turns=4))
    records = len(read_run(spent.run_dir).records)
    for place in range(1, records):
        folder = tmp_path / str(place)
        cut(spent.run_dir, folder, place)
        outcome = await resumed(folder, ScriptedModel([says("Done.")]), "all")
        assert outcome.status == "done"
        must_read_back(read_run(folder))


@pytest.mark.parametrize("at", [3, 4])
async def test_fork_does_not_say_what_the_other_run_was_told_after_its_last_cell(at: int):
    spent = await driven(*(calls(SAME) for _ in range(4)), says("Half."), budget=Budget(turns=4))
    folder = fork(read_run(spent.run_dir), at, secrets=Secrets({}), task="Do more.")
    model = ScriptedModel([says("Done.")])
    await resumed(folder, model, "all")
    told = " ".join(texts(model.requests[0].history))
    assert ("3 times in a row" in told) is (at == 4)
    assert "budget of this task is spent" not in told


async def test_only_the_summary_that_a_spent_budget_asked_for_is_read_back():
    """A request without calls that ends with anything else is none of it, also behind such a summary."""
    spent = await driven(calls("x = 1"), says("Half."), budget=Budget(turns=1))
    await gone_on(spent.run_dir, calls("x = 2"), says("More."), budget=Budget(turns=1))
    whole = read_run(spent.run_dir)
    last = max(place for place, one in enumerate(whole.records) if isinstance(one, ModelRequest))
    other = whole.records[last].model_copy(update={"input": whole.records[last].input[:-1]})  # type: ignore[union-attr]
    lines = [replace(line, record=other) if place == last else line for place, line in enumerate(whole.lines)]
    history = str(conversation_of(replace(whole, lines=tuple(lines))).history.items)
    assert ("Half." in history, "More." in history) == (True, False)


async def test_turns_of_a_run_that_goes_on_are_numbered_on_and_none_of_them_is_taken_for_a_summary() -> None:
    seen: list[Progress] = []
    first = ScriptedModel([calls("log(1)"), says("Half of it.")])
    outcome = await run("Do it.", model=first, backend=FakeBackend(), budget=Budget(turns=1), on_progress=seen.append)
    driving = Driving(
        model=ScriptedModel([calls("log(2)"), says("Done.")]), budget=Budget(turns=4), on_progress=seen.append
    )
    plan = plan_for(read_run(outcome.run_dir), "safe")
    await resume_by_model(outcome.run_dir, plan, Given(), driving, backend=FakeBackend())
    assert [(one.number, one.of, one.sums_up) for one in seen if isinstance(one, TurnStarted)] == [
        (1, 1, False), (2, 2, True), (3, 6, False), (4, 6, False),
    ]  # fmt: skip
