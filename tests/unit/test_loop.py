"""A run by a model: what is executed, what is answered, and how it ends. A scripted model, a fake sandbox, a real journal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.waiting import GUARD_S

from cellwright.budget import Budget, Meter
from cellwright.errors import ModelError, SandboxUnavailable, UsageError
from cellwright.loop import Outcome, run
from cellwright.model.base import OnDelta, Request, Response
from cellwright.progress import CellEnded, CellStarted, Progress, RunStarted
from cellwright.testing.clock import FakeClock
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, call, calls, refuses, response, says
from cellwright_kernel.wire import CODE_BYTES


async def driven(*turns: Response | Exception, budget: Budget | None = None) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    return await run("Do it.", model=model, budget=budget, backend=FakeBackend()), model


def answered(model: ScriptedModel, request: int = -1) -> list[tuple[str, str]]:
    """Return (call_id, text) of the answers that a request sent, those of earlier turns in it."""
    items = [item for item in model.requests[request].history if item.get("type") == "function_call_output"]
    return [(str(i["call_id"]), "\n".join(part["text"] for part in i["output"])) for i in items]  # type: ignore[union-attr, index, misc, call-overload]


def journal(outcome: Outcome) -> list[dict[str, object]]:
    return [json.loads(line) for line in (outcome.run_dir / "journal.jsonl").read_text().splitlines()]


async def test_variables_stay_from_turn_to_turn_and_the_last_words_are_the_summary():
    outcome, model = await driven(calls("x = 41"), calls("log(x + 1)"), says("It is 42."))
    assert (outcome.status, outcome.reason, outcome.summary) == ("done", None, "It is 42.")
    assert (outcome.turns, outcome.cells) == (3, 2)
    assert answered(model)[-1][1] == "42"


async def test_history_is_sent_whole_with_the_models_items_as_they_came():
    first, second = calls("log(1)", text="I begin."), says("Done.")
    _, model = await driven(first, second)
    history = model.requests[1].history
    assert history[0]["role"] == "user"
    assert list(history[1:3]) == [item.raw for item in first.items]
    assert history[1]["phase"] == "commentary"
    assert [item["type"] for item in history] == ["message", "message", "function_call", "function_call_output"]


async def test_two_calls_are_executed_in_order_and_answered_in_one_request():
    outcome, model = await driven(calls("log('a')", "log('b')"), says("Done."))
    assert [text for _, text in answered(model)] == ["a", "b"]
    assert (outcome.turns, outcome.cells) == (2, 2)


async def test_error_of_the_code_is_an_answer_and_the_run_goes_on():
    outcome, model = await driven(calls("1 / 0"), says("It failed."))
    assert outcome.status == "done"
    assert "ZeroDivisionError" in answered(model)[0][1]


BAD = {
    "no JSON": (call("{code: 1"), "not JSON"),
    "deep JSON": (call("[" * 100_000), "not JSON"),
    "no code": (call("{}"), 'no string "code"'),
    "code is no string": (call('{"code": 1}'), 'no string "code"'),
    "a list": (call('["log(1)"]'), 'no string "code"'),
    "empty": (call(""), "not JSON"),
    "more than code": (call('{"code": "log(1)", "timeout": 9}'), 'more than "code": timeout'),
    "unknown tool": (call('{"code": "log(1)"}', name="bash"), "no tool 'bash'"),
    "language that is not there": (call('{"code": "1"}', name="exec_sh"), "no tool 'exec_sh'"),
    "too large": (call(json.dumps({"code": "#" * (CODE_BYTES + 1)})), f"{CODE_BYTES + 1} bytes"),
}


@pytest.mark.parametrize("title", BAD)
async def test_bad_call_is_answered_and_not_executed(title: str):
    bad, why = BAD[title]
    outcome, model = await driven(response(bad), says("I see."))
    assert (outcome.status, outcome.cells) == ("done", 0)
    ((call_id, text),) = answered(model)
    assert call_id == bad["call_id"]
    assert why in text
    assert "Nothing was executed" in text


async def test_one_bad_call_keeps_the_whole_response_from_running():
    good, bad = call('{"code": "log(1)"}'), call("{")
    outcome, model = await driven(response(good, bad), says("I see."))
    assert outcome.cells == 0
    assert [call_id for call_id, _ in answered(model)] == [good["call_id"], bad["call_id"]]
    assert "another call" in answered(model)[0][1]


async def test_code_of_exactly_the_ceiling_is_executed():
    outcome, _ = await driven(calls("#" * CODE_BYTES), says("Done."))
    assert outcome.cells == 1


async def test_lone_surrogates_in_code_do_not_stop_the_run():
    outcome, _ = await driven(response(call('{"code": "log(\'\\udc80\')"}')), says("Done."))
    assert (outcome.status, outcome.cells) == ("done", 1)


async def test_bad_calls_three_times_in_a_row_are_stuck():
    outcome, model = await driven(*(response(call("{")) for _ in range(9)))
    assert (outcome.status, len(model.requests)) == ("stuck", 3)


async def test_good_call_between_bad_ones_starts_the_count_again():
    bad = [response(call("{")) for _ in range(4)]
    outcome, _ = await driven(*bad[:2], calls("1"), *bad[2:], says("Done."))
    assert outcome.status == "done"


async def test_commentary_alone_means_go_on():
    outcome, model = await driven(says("I think.", "commentary"), calls("log(1)"), says("Done."))
    assert (outcome.status, outcome.turns) == ("done", 3)
    assert model.requests[1].history[-1]["phase"] == "commentary"


async def test_commentary_alone_three_times_is_stuck():
    outcome, _ = await driven(*(says("Hm.", "commentary") for _ in range(9)))
    assert (outcome.status, outcome.turns) == ("stuck", 3)
    assert outcome.reason is not None


async def test_empty_response_means_go_on():
    outcome, _ = await driven(response(), says("Done."))
    assert (outcome.status, outcome.turns) == ("done", 2)


async def test_message_without_phase_finishes():
    assert (await driven(says("Done.", None)))[0].status == "done"


async def test_final_message_beside_a_call_does_not_finish():
    both = response(says("Done.").items[0].raw, call('{"code": "log(1)"}'))
    outcome, _ = await driven(both, says("Really done."))
    assert (outcome.summary, outcome.cells) == ("Really done.", 1)


async def test_refusal_fails_with_its_words():
    outcome, _ = await driven(refuses("I won't."))
    assert (outcome.status, outcome.reason) == ("failed", "The model refused: I won't.")


@pytest.mark.parametrize(
    ("status", "why", "said"),
    [
        ("incomplete", "max_output_tokens", "limit of tokens"),
        ("incomplete", "content_filter", "content filter"),
        ("failed", "server_error: oops", "ended as failed (server_error: oops)"),
        ("cancelled", None, "ended as cancelled"),
    ],
)
async def test_response_that_is_not_whole_fails_and_nothing_of_it_runs(status: str, why: str | None, said: str):
    outcome, _ = await driven(response(call('{"code": "log(1)"}'), status=status, reason=why))
    assert (outcome.status, outcome.cells) == ("failed", 0)
    assert said in str(outcome.reason)


@pytest.mark.parametrize("ids", [("", "b"), ("a", "a")])
async def test_calls_without_ids_of_their_own_fail_the_run(ids: tuple[str, str]):
    outcome, _ = await driven(response(*(call('{"code": "log(1)"}', call_id=one) for one in ids)))
    assert (outcome.status, outcome.cells) == ("failed", 0)


async def test_tool_that_was_not_offered_fails_the_run():
    outcome, _ = await driven(response({"type": "computer_call", "call_id": "c", "actions": []}))
    assert outcome.status == "failed"
    assert "computer_call" in str(outcome.reason)


async def test_model_error_fails_the_run_and_its_record_says_why():
    outcome, _ = await driven(calls("log(1)"), ModelError("No answer."))
    assert (outcome.status, outcome.reason, outcome.cells) == ("failed", "No answer.", 1)
    assert outcome.turns == 1, "a request without a response is no turn"
    kinds = [record["type"] for record in journal(outcome)]
    assert journal(outcome)[-1]["turns"] == 1
    assert kinds.count("model_request") == 2
    assert kinds.count("model_response") == 1
    assert kinds.count("model_failed") == 1
    assert kinds[-1] == "run_closed"


async def test_spent_turns_end_with_a_summary_and_every_call_answered():
    outcome, model = await driven(calls("x = 1"), calls("x = 2"), says("Half done."), budget=Budget(turns=2))
    assert (outcome.status, outcome.summary, outcome.turns, outcome.cells) == ("budget", "Half done.", 3, 2)
    assert "2 turns" in str(outcome.reason)
    assert [request.may_call for request in model.requests] == [True, True, False]
    assert len(answered(model)) == 2
    assert model.requests[-1].history[-1]["role"] == "user"


async def test_call_in_the_summary_is_not_executed():
    outcome, _ = await driven(calls("x = 1"), calls("x = 2", text="One more."), budget=Budget(turns=1))
    assert (outcome.status, outcome.summary, outcome.cells) == ("budget", "One more.", 1)


async def test_summary_that_cannot_be_had_is_still_the_end_of_the_budget():
    outcome, _ = await driven(calls("x = 1"), ModelError("Gone."), budget=Budget(turns=1))
    assert (outcome.status, outcome.summary, outcome.turns) == ("budget", None, 1)
    assert "Gone." in str(outcome.reason)


async def test_spent_cells_are_answered_and_end_with_a_summary():
    outcome, model = await driven(calls("log('a')", "log('b')"), says("One of two."), budget=Budget(cells=1))
    assert (outcome.status, outcome.cells) == ("budget", 1)
    assert answered(model)[0][1] == "a"
    assert "budget of this task is spent (1 cell)" in answered(model)[1][1]


async def test_seconds_are_counted_by_the_clock():
    clock = FakeClock()
    meter = Meter(Budget(seconds=10), clock.now)
    assert (meter.take_turn(), meter.seconds_left) == (None, 10)
    await clock.advance(10)
    assert meter.take_turn() == "10 seconds"
    assert meter.take_cell() == "10 seconds"


class HangsModel(ScriptedModel):
    """Plays its responses, and answers nothing after them."""

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        try:
            return await super().respond(request, on_delta)
        except ModelError:
            return await asyncio.Future()


async def test_run_ends_with_its_seconds_while_the_server_answers_nothing():
    model = HangsModel([calls("log(1)")])
    outcome = await run("Do it.", model=model, budget=Budget(seconds=0.1), backend=FakeBackend())
    assert (outcome.status, outcome.cells, outcome.turns, outcome.summary) == ("budget", 1, 1, None)
    assert "had not answered when the time of this task was up (0.1 s)" in str(outcome.reason)
    failed = [record for record in journal(outcome) if record["type"] == "model_failed"]
    assert [record["reason"] for record in failed] == [outcome.reason]


async def test_run_ends_while_the_server_answers_nothing_to_the_request_for_a_summary(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cellwright.budget.LAST_WORDS_S", 0.05)
    model = HangsModel([calls("import time; time.sleep(0.2)")])
    outcome = await run("Do it.", model=model, budget=Budget(turns=1, seconds=0.1), backend=FakeBackend())
    assert (outcome.status, outcome.summary, len(model.requests)) == ("budget", None, 2)
    assert "there is no summary" in str(outcome.reason)


async def test_slow_summary_is_waited_for_after_the_seconds_are_spent():
    class Slow(ScriptedModel):
        async def respond(self, request: Request, on_delta: OnDelta) -> Response:
            await asyncio.sleep(0.1 if request.may_call is False else 0)
            return await super().respond(request, on_delta)

    model = Slow([calls("import time; time.sleep(0.1)"), says("So far.")])
    outcome = await run("Do it.", model=model, budget=Budget(seconds=0.05), backend=FakeBackend())
    assert (outcome.status, outcome.summary) == ("budget", "So far.")


@pytest.mark.parametrize("wrong", [{"turns": 0}, {"cells": -1}, {"seconds": 0}])
def test_budget_of_nothing_is_refused(wrong: dict[str, int]):
    with pytest.raises(UsageError):
        Budget(**wrong)


async def test_journal_holds_requests_responses_and_cells_with_their_calls():
    outcome, model = await driven(calls("log(1)"), says("Done."))
    records = journal(outcome)
    kinds = [r["type"] for r in records if r["type"] not in ("screen", "session_opened", "session_closed")]
    turn = ["model_request", "model_response"]
    assert kinds == [*turn, "cell_opened", "cell_closed", *turn, "run_closed"]
    (opened,) = [r for r in records if r["type"] == "cell_opened"]
    assert (opened["turn"], opened["call_id"]) == (1, model.requests[1].history[1]["call_id"])
    closed = records[-1]
    assert (closed["status"], closed["summary"], closed["turns"], closed["cells"]) == ("done", "Done.", 2, 1)


async def test_progress_tells_what_happened_in_order():
    seen: list[Progress] = []
    model = ScriptedModel([calls("log(1)"), says("Done.")])
    await run("Do it.", model=model, backend=FakeBackend(), on_progress=seen.append)
    kinds = [type(one).__name__ for one in seen]
    turn = ["TurnStarted", "Arriving", "TurnArrived"]
    assert [k for k in kinds if k != "CellWrote"] == ["RunStarted", *turn, "CellStarted", "CellEnded", *turn]
    assert [one.code for one in seen if isinstance(one, CellStarted)] == ["log(1)"]
    assert [one.cell.number for one in seen if isinstance(one, CellEnded)] == [1]


async def test_cancelling_closes_the_run_as_cancelled():
    started = asyncio.Event()
    folders: list[Path] = []

    class Slow(ScriptedModel):
        async def respond(self, *_):
            started.set()
            await asyncio.Event().wait()
            raise AssertionError

    def see(progress: Progress) -> None:
        if isinstance(progress, RunStarted):
            folders.append(progress.run_dir)

    running = asyncio.ensure_future(run("Do it.", model=Slow([]), backend=FakeBackend(), on_progress=see))
    await asyncio.wait_for(started.wait(), GUARD_S)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    last = json.loads((folders[0] / "journal.jsonl").read_text().splitlines()[-1])
    assert (last["type"], last["status"]) == ("run_closed", "cancelled")
    assert (folders[0] / "head.json").exists()


async def test_sandbox_that_cannot_start_is_an_error_of_ours():
    class Broken(FakeBackend):
        async def start(self, *_, **__):
            raise SandboxUnavailable

    with pytest.raises(SandboxUnavailable):
        await run("Do it.", model=ScriptedModel([]), backend=Broken())


async def test_empty_task_is_refused():
    with pytest.raises(UsageError):
        await run("  ", model=ScriptedModel([]), backend=FakeBackend())


async def test_no_key_and_no_server_is_refused_before_a_sandbox_starts():
    backend = FakeBackend()
    with pytest.raises(UsageError, match=r"OPENAI_API_KEY.*--base-url.*--emulate"):
        await run("Do it.", backend=backend)
    assert backend.made == []


async def test_model_that_was_given_is_not_closed():
    _, model = await driven(says("Done."))
    assert not model.closed


async def test_only_the_languages_asked_for_are_offered():
    model = ScriptedModel([says("Done.")])
    await run("Do it.", model=model, backend=FakeBackend(), languages=("javascript",))
    assert [tool["name"] for tool in model.requests[0].tools] == ["exec_js"]
