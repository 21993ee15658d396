"""A run at a server that is spoken to otherwise goes on from its journal like any other."""

from __future__ import annotations

import pytest
from tests.able_server import AbleServer

from cellwright.budget import Budget
from cellwright.cli.model_options import ModelOptions
from cellwright.conversation import conversation_of
from cellwright.emulator.sdk_types import check
from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking
from cellwright.model.base import Request
from cellwright.model.fallback import FallbackModel
from cellwright.model.profile import Profile
from cellwright.model.responses import ResponsesModel
from cellwright.model.stored_profiles import store
from cellwright.model.wire import Wire
from cellwright.model_server import model_at, profiles_folder
from cellwright.record.reader import read_run
from cellwright.testing.fake_sandbox import FakeBackend

ABLE = Profile(name="able")


class Calling(AbleServer):
    """Its model calls `exec_py` as often as it may, by a function or a custom tool, and then says what it was answered."""

    def __init__(self, profile: Profile, *, calls: int, is_custom: bool) -> None:
        super().__init__(profile)
        self._calls = calls
        self._is_custom = is_custom

    def _response(self, history):
        response, made = super()._response(history), sum(str(item.get("type")).endswith("_output") for item in history)
        if made >= self._calls or not self.requests[-1]["tools"]:
            return response
        named = {"call_id": f"c{made}", "name": "exec_py"}
        call = (
            {"type": "custom_tool_call", "id": f"ctc_{made}", **named, "input": "log(1)"}
            if self._is_custom
            else {"type": "function_call", "id": f"fc_{made}", **named, "arguments": '{"code": "log(1)"}'}
        )
        return {**response, "output": [*response["output"][:-1], call]}


async def driven(server: AbleServer, *, budget: Budget | None = None, custom_tools: bool = False) -> Outcome:
    asking = Asking(custom_tools=custom_tools)
    model = ResponsesModel("m", base_url=server.base_url, api_key="k", asking=asking, profile=server.profile)
    try:
        return await run("Do it.", model=model, backend=FakeBackend(), budget=budget)
    finally:
        await model.close()


async def test_answers_to_custom_calls_are_those_of_custom_tools_when_a_run_goes_on() -> None:
    async with Calling(ABLE, calls=2, is_custom=True) as server:
        outcome = await driven(server, custom_tools=True)
    assert (outcome.status, outcome.cells) == ("done", 2), outcome.reason
    begun = conversation_of(read_run(outcome.run_dir))
    items = Wire(ABLE).input(begun.history)
    check({"model": "m", "input": [*items]})
    kinds = [str(item["type"]) for item in items]
    assert kinds.count("custom_tool_call") == kinds.count("custom_tool_call_output") == 2
    assert "function_call_output" not in kinds
    assert items[: len(server.requests[-1]["input"])] == server.requests[-1]["input"]


async def test_reasoning_of_the_model_before_is_not_sent_to_another_that_goes_on() -> None:
    async with Calling(ABLE, calls=2, is_custom=False) as server:
        outcome = await driven(server, budget=Budget(turns=1))
        recorded = read_run(outcome.run_dir)
        for name in ("m", "other"):
            begun = conversation_of(recorded)
            model = ResponsesModel(name, base_url=server.base_url, api_key="k", profile=server.profile)
            await model.respond(Request("", begun.sent.items, (), authors=begun.authors), lambda _: None)
            await model.close()
    before, *_, same, another = [[str(item["type"]) for item in body["input"]] for body in server.requests]
    assert before == ["message"]
    assert same.count("reasoning") == 2
    assert another == [kind for kind in same if kind != "reasoning"]


async def test_response_that_summed_up_without_tools_is_not_gone_on_from() -> None:
    """A server that knows no `tool_choice` is sent no tools when the budget is spent."""
    poor = Profile(name="poor", tool_choice=False)
    async with Calling(poor, calls=9, is_custom=False) as server:
        outcome = await driven(server, budget=Budget(turns=1))
    assert (outcome.status, outcome.cells) == ("budget", 1)
    assert [bool(body["tools"]) for body in server.requests] == [True, False]
    begun = conversation_of(read_run(outcome.run_dir))
    assert (begun.last_words, begun.calls) == (None, ()), "what only sums up finishes nothing"
    kinds = [item["type"] for item in begun.history]
    assert kinds[:5] == ["message", "reasoning", "function_call", "function_call_output", "message"]
    assert kinds.count("function_call") == 1


async def test_models_that_are_named_stand_in_for_each_other_each_with_its_own_profile() -> None:
    found = Profile(name="found", known_from="probe", tool_images="none")
    store(profiles_folder(), "http://gpu.test:9/v1", "two", found, probed_at="now")
    model = model_at("one", base_url="http://gpu.test:9/v1", fallbacks=["two", "one"])
    assert repr(model) == "<FallbackModel one, two: one is asked>"
    assert isinstance(model, FallbackModel)
    assert [one.profile.name for one in model._models] == ["api", "found"]  # type: ignore[attr-defined]
    await model.close()


async def test_profile_that_probe_kept_is_used_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    found = Profile(name="gpu.test:9", known_from="probe", tool_images="none", streaming=False)
    store(profiles_folder(), "http://gpu.test:9/v1", "m", found, probed_at="now")
    async with ModelOptions(model="m", base_url="http://gpu.test:9/v1").chosen().served() as model:
        assert getattr(model, "profile", None) == found
    assert "this server is asked as `probe` found that gpu.test:9 wants it" in capsys.readouterr().err
    async with ModelOptions(model="n", base_url="http://gpu.test:9/v1").chosen().served() as model:
        assert getattr(model, "profile", None) == Profile(name="api")
    assert capsys.readouterr().err == ""
