"""A run by a model with a person beside it: asked by the model, steering it, pausing it, approving its cells; and each again from its record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from pydantic import JsonValue

from cellwright.asking import Presets, Question
from cellwright.budget import Budget
from cellwright.conversation import conversation_of
from cellwright.endings import Stopped
from cellwright.errors import UsageError
from cellwright.loop import Outcome, run
from cellwright.model.base import OnDelta, Request, Response
from cellwright.people import People
from cellwright.record import read_run, verify
from cellwright.record.records import Note, PersonAnswered
from cellwright.replay.fork import fork
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.secrets import NONE
from cellwright.steering import Steering
from cellwright.terms import Checks
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, call, calls, response, says


def asks(question: str) -> Response:
    return response(call(json.dumps({"question": question}), name="ask_user"))


def answers(model: ScriptedModel, request: int = -1) -> list[str]:
    items = [item for item in model.requests[request].history if item.get("type") == "function_call_output"]
    return ["\n".join(part["text"] for part in item["output"]) for item in items]  # type: ignore[union-attr, index, misc, call-overload]


def said_by_user(request: Request) -> list[str]:
    return [item["content"][0]["text"] for item in request.history if item.get("role") == "user"]  # type: ignore[index, call-overload, misc]


async def driven(*turns: Response, people: People | None = None, **more: object) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    return await run("Do it.", model=model, backend=FakeBackend(), people=people, **more), model  # type: ignore[arg-type]


async def test_the_model_asks_without_a_cell_and_is_answered() -> None:
    outcome, model = await driven(
        asks("Which account?"), says("Done."), people=People(asking=Presets(["the blue one"]))
    )
    assert (outcome.status, outcome.cells, outcome.turns) == ("done", 0, 2)
    assert answers(model) == ["the blue one"]
    (answered,) = [r for r in read_run(outcome.run_dir).records if isinstance(r, PersonAnswered)]
    assert (answered.question, answered.answer, answered.cell) == ("Which account?", "the blue one", None)


async def test_the_tool_and_the_words_about_it_are_there_where_somebody_can_be_asked_and_nowhere_else() -> None:
    _, alone = await driven(says("Done."))
    _, asked = await driven(says("Done."), people=People(asking=Presets([])))
    assert [tool["name"] for tool in alone.requests[0].tools] == ["exec_py", "exec_js"]
    assert [tool["name"] for tool in asked.requests[0].tools] == ["exec_py", "exec_js", "ask_user"]
    assert "ask_user" not in alone.requests[0].instructions
    assert "ask_user" in asked.requests[0].instructions


async def test_where_nobody_can_be_asked_the_tool_is_not_there() -> None:
    _, model = await driven(asks("Which?"), says("Done."))
    assert "There is no tool 'ask_user'." in answers(model)[0]


async def test_a_question_that_gets_no_answer_is_answered_with_why() -> None:
    _, model = await driven(asks("Which?"), says("Done."), people=People(asking=Presets([])))
    assert answers(model) == ["All answers that were given beforehand are used, and nobody else can be asked."]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("{", "not JSON"),
        ("{}", 'no text "question"'),
        ('{"question": 7}', 'no text "question"'),
        ('{"question": " "}', 'no text "question"'),
        ('{"question": "a", "to": "b"}', 'more than "question": to'),
        (json.dumps({"question": "q" * 10_000}), "The question has 10000 characters"),
    ],
)
async def test_what_is_no_question_is_answered_and_nobody_is_asked(arguments: str, why: str) -> None:
    people = People(asking=Presets(["never given"]))
    _, model = await driven(response(call(arguments, name="ask_user")), says("Done."), people=people)
    assert why in answers(model)[0]
    assert "Nobody was asked" in answers(model)[0]


async def test_a_question_beside_a_bad_call_is_not_asked() -> None:
    people = People(asking=Presets(["never given"]))
    both = response(call(json.dumps({"question": "Which?"}), name="ask_user"), call("{"))
    _, model = await driven(both, says("Done."), people=people)
    assert "another call of the same response" in answers(model)[0]


class Slow:
    async def ask(self, question: Question) -> str:  # noqa: ARG002 - it is all the same
        await asyncio.sleep(0.3)
        return "at last"


async def test_time_for_which_a_person_is_waited_for_is_none_of_the_budget() -> None:
    """Two waits of 0.3 s, with 0.25 s to spend: one for the model, one for a cell."""
    people = People(asking=Slow())
    outcome, _ = await driven(
        asks("Which?"), calls("log(ask_user('And?'))"), says("Done."), people=people, budget=Budget(seconds=0.25)
    )
    assert outcome.status == "done"
    assert people.waits.total_s >= 0.6


async def test_the_answers_to_a_models_questions_are_read_back() -> None:
    people = People(asking=Presets(["the blue one"]))
    outcome, model = await driven(asks("Which account?"), asks("And then?"), says("Done."), people=people)
    begun = conversation_of(read_run(outcome.run_dir))
    assert begun.history.items[:-1] == model.requests[-1].history


async def test_a_question_that_was_open_when_all_was_stopped_is_asked_again() -> None:
    outcome, _ = await driven(asks("Which?"), says("Done."), people=People(asking=Presets(["x"])))
    journal = outcome.run_dir / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"person_answered"' in line)
    journal.write_text("".join(lines[:at]))
    (outcome.run_dir / "head.json").unlink()
    model = ScriptedModel([says("Done.")])
    driving = Driving(model=model, people=People(asking=Presets(["the red one"])))
    plan = plan_for(read_run(outcome.run_dir), "safe")
    await resume_by_model(outcome.run_dir, plan, Given(), driving, backend=FakeBackend())
    assert answers(model) == ["the red one"]


class Telling(ScriptedModel):
    """Has in its parameters what a server would be sent besides the history."""

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        tools: list[JsonValue] = [dict(tool) for tool in request.tools]
        return {**super().parameters(request), "instructions": request.instructions, "tools": tools}


@pytest.mark.parametrize("can_ask", [True, False])
async def test_a_run_that_is_resumed_is_told_anew_whether_somebody_can_be_asked(can_ask: bool) -> None:
    """What it was told the first time is sent again only where it is still so."""
    somebody, nobody = People(asking=Presets([])), People()
    first, second = Telling([calls("log(1)")]), Telling([says("Done.")])
    outcome = await run("Do it.", model=first, backend=FakeBackend(), people=nobody if can_ask else somebody)
    plan = plan_for(read_run(outcome.run_dir), "safe")
    driving = Driving(model=second, people=somebody if can_ask else nobody)
    await resume_by_model(outcome.run_dir, plan, Given(), driving, backend=FakeBackend())
    assert ["ask_user" in request.instructions for request in (first.requests[0], second.requests[0])] == [
        not can_ask, can_ask,
    ]  # fmt: skip
    assert [tool["name"] for tool in second.requests[0].tools][2:] == ["ask_user"] * can_ask


async def test_a_fork_has_nothing_of_what_was_asked_and_turned_down_after_its_last_cell() -> None:
    """What was, in the same response, stays."""
    first, second = (call(json.dumps({"question": "Which?"}), name="ask_user") for _ in range(2))
    beside, bad = call(json.dumps({"code": "1"})), call("{")
    people = People(asking=Presets(["the first", "the second"]))
    outcome, _ = await driven(response(beside, first), response(second), response(bad), says("Done."), people=people)
    forked = read_run(fork(read_run(outcome.run_dir), 1, secrets=NONE))
    assert [r.answer for r in forked.records if isinstance(r, PersonAnswered)] == ["the first"]
    assert [r for r in forked.records if isinstance(r, Note) and r.topic == "call"] == []


# Steering


class Watched(ScriptedModel):
    """Does something while it is asked."""

    def __init__(self, *turns: tuple[Response, Callable[[], Awaitable[None] | None]]) -> None:
        super().__init__([turn for turn, _ in turns])
        self._acts = [act for _, act in turns]

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        done = self._acts.pop(0)() if self._acts else None
        if done is not None:
            await done
        return await super().respond(request, on_delta)


def nothing() -> None:
    pass


async def test_a_word_in_between_goes_with_the_next_request_after_the_answers() -> None:
    steering = Steering()
    model = Watched((calls("log(1)"), lambda: steering.steer("Use the blue one.")), (says("Done."), nothing))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert [item["type"] for item in model.requests[1].history] == [
        "message", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert said_by_user(model.requests[1]) == ["Do it.", "Use the blue one."]
    (note,) = [r for r in read_run(outcome.run_dir).records if isinstance(r, Note) and r.topic == "steered"]
    assert note.text == "Use the blue one."


async def test_a_word_that_comes_while_the_model_finishes_is_read_before_it_has_finished() -> None:
    steering = Steering()
    model = Watched((says("Done."), lambda: steering.steer("Not yet.")), (says("Now it is."), nothing))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert (outcome.summary, outcome.turns) == ("Now it is.", 2)
    assert said_by_user(model.requests[1]) == ["Do it.", "Not yet."]


async def test_a_word_is_said_again_in_a_run_that_is_resumed_and_a_model_that_had_not_read_it_has_not_finished() -> (
    None
):
    steering = Steering()
    model = Watched((says("Done."), lambda: steering.steer("Not yet.")))  # then it has no further turn
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert outcome.status == "failed"
    again = ScriptedModel([says("Now it is.")])
    plan = plan_for(read_run(outcome.run_dir), "safe")
    resumed = await resume_by_model(outcome.run_dir, plan, Given(), Driving(model=again), backend=FakeBackend())
    assert resumed.summary == "Now it is."
    assert said_by_user(again.requests[0])[:2] == ["Do it.", "Not yet."]


async def test_a_pause_waits_before_the_next_cell_and_takes_none_of_the_budget() -> None:
    steering, people = Steering(), People()
    loop = asyncio.get_running_loop()

    def pauses() -> None:
        steering.pause()
        loop.call_later(0.3, steering.go_on)

    model = Watched((calls("log(1)"), pauses), (says("Done."), nothing))
    outcome = await run(
        "Do it.", model=model, backend=FakeBackend(), steering=steering, people=people, budget=Budget(seconds=0.25)
    )
    assert outcome.status == "done"
    assert people.waits.total_s >= 0.29


async def test_calls_that_a_pause_held_back_are_not_executed_once_the_person_has_said_something() -> None:
    steering = Steering()

    def pauses_and_says() -> None:
        steering.pause()
        steering.steer("Not there.")
        asyncio.get_running_loop().call_soon(steering.go_on)

    model = Watched((calls("log(1)", "log(2)"), pauses_and_says), (calls("log(3)"), nothing), (says("Done."), nothing))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert (outcome.status, [cell.code for cell in read_run(outcome.run_dir).cells]) == ("done", ["log(3)"])
    answers = [item["output"] for item in model.requests[1].history if item["type"] == "function_call_output"]
    assert [part[0]["text"][:27] for part in answers] == ["Not executed: before this c"] * 2  # type: ignore[index, misc, call-overload]
    assert said_by_user(model.requests[1]) == ["Do it.", "Not there."]
    assert model.requests[1].history[-1]["role"] == "user"


@pytest.mark.parametrize("is_paused", [True, False])
async def test_what_was_said_before_a_stop_is_in_the_record_and_calls_that_were_open_are_not_executed_by_the_next(
    is_paused: bool,
) -> None:
    steering = Steering()

    def says_and_stops() -> None:
        if is_paused:
            steering.pause()
        steering.steer("Not there.")
        steering.stop()

    model = Watched((calls("log(1)"), says_and_stops))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert (outcome.status, outcome.cells) == ("cancelled", 0)
    again = ScriptedModel([says("Done.")])
    plan = plan_for(read_run(outcome.run_dir), "safe")
    resumed = await resume_by_model(outcome.run_dir, plan, Given(), Driving(model=again), backend=FakeBackend())
    assert (resumed.status, resumed.cells) == ("done", 0)
    (answer,) = [item for item in again.requests[0].history if item["type"] == "function_call_output"]
    assert answer["output"][0]["text"].startswith("Not executed: before this call was begun, a person said")  # type: ignore[index, call-overload, union-attr]
    assert said_by_user(again.requests[0])[:2] == ["Do it.", "Not there."]


async def test_calls_that_a_pause_held_back_are_executed_where_the_person_just_goes_on() -> None:
    steering = Steering()

    def pauses() -> None:
        steering.steer("Later, use the blue one.")  # before the pause: it is about what comes next
        steering.pause()
        asyncio.get_running_loop().call_soon(steering.go_on)

    model = Watched((calls("log(1)"), pauses), (says("Done."), nothing))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert (outcome.status, outcome.cells) == ("done", 1)


async def test_a_stop_ends_the_run_in_order_before_its_next_act() -> None:
    steering = Steering()
    model = Watched((calls("log(1)"), steering.stop))
    outcome = await run("Do it.", model=model, backend=FakeBackend(), steering=steering)
    assert (outcome.status, outcome.reason, outcome.cells) == ("cancelled", "It was stopped by a person.", 0)
    assert verify(outcome.run_dir).status == "whole"


async def test_a_stop_ends_a_pause() -> None:
    steering = Steering()
    steering.pause()
    asyncio.get_running_loop().call_soon(steering.stop)
    outcome = await run("Do it.", model=ScriptedModel([]), backend=FakeBackend(), steering=steering)
    assert outcome.status == "cancelled"


async def test_a_stop_ends_a_question_of_the_model_which_is_asked_again_when_the_run_is_resumed() -> None:
    steering = Steering()

    class Stops:
        async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - it is all the same
            steering.stop()
            await asyncio.Event().wait()

    outcome, _ = await driven(asks("Which?"), people=People(asking=Stops()), steering=steering)
    assert outcome.status == "cancelled"
    model = ScriptedModel([says("Done.")])
    driving = Driving(model=model, people=People(asking=Presets(["the red one"])))
    plan = plan_for(read_run(outcome.run_dir), "safe")
    await resume_by_model(outcome.run_dir, plan, Given(), driving, backend=FakeBackend())
    assert answers(model) == ["the red one"]


async def test_a_stop_gives_up_a_cell_that_checks_the_final_answer_which_is_checked_again_when_the_run_is_resumed() -> (
    None
):
    steering = Steering()

    class Stops:
        async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - it is all the same
            steering.stop()
            await asyncio.Event().wait()

    checks = Checks(verify_cell="ask_user('Is it so?') == 'yes'")
    outcome, _ = await driven(says("Done."), people=People(asking=Stops()), steering=steering, checks=checks)
    assert (outcome.status, outcome.summary) == ("cancelled", None)
    driving = Driving(model=ScriptedModel([]), people=People(asking=Presets(["yes"])))
    plan = plan_for(read_run(outcome.run_dir), "safe")
    resumed = await resume_by_model(outcome.run_dir, plan, Given(), driving, backend=FakeBackend())
    assert (resumed.status, resumed.summary) == ("done", "Done.")
    first, second = read_run(outcome.run_dir).cells
    assert ("The cell was interrupted." in first.text, second.status) == (True, "ok")
    assert verify(outcome.run_dir).status == "whole"


async def test_what_is_begun_after_a_stop_is_not_begun() -> None:
    steering, begun = Steering(), list[str]()

    async def begins() -> None:
        begun.append("something")

    steering.stop("Enough.")
    with pytest.raises(Stopped, match="Enough"):
        await steering.unless_stopped(begins())
    assert begun == []


async def test_an_interrupt_is_the_running_cells() -> None:
    steering, asked = Steering(), asyncio.Event()

    class Silent:
        async def ask(self, question: Question) -> str | None:  # noqa: ARG002 - it says nothing
            asked.set()
            await asyncio.Event().wait()

    async def interrupts() -> None:
        await asked.wait()
        await steering.interrupt()

    model = ScriptedModel([calls("ask_user('?')"), says("Done.")])
    async with asyncio.TaskGroup() as group:
        group.create_task(interrupts())
        outcome = await run(
            "Do it.", model=model, backend=FakeBackend(), steering=steering, people=People(asking=Silent())
        )
    assert outcome.status == "done"
    assert "The cell was interrupted." in answers(model)[0]


def test_a_word_that_is_none_is_refused() -> None:
    steering = Steering()
    with pytest.raises(UsageError, match="nothing to tell"):
        steering.steer("  ")
    with pytest.raises(UsageError, match="20,000 characters"):
        steering.steer("x" * 20_001)
    assert not steering.words
