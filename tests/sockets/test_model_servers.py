"""One loop, servers of different abilities: chained or stateless, streamed or whole, with code as plain text, with pictures that are refused."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from PIL import Image
from starlette.responses import Response as HttpResponse
from tests.able_server import AbleServer
from tests.faulty_server import Fault, FaultyServer
from tests.front import Front

from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import AskedOtherwise, Delta, Heard, Item, OtherItem, Request, Retried
from cellwright.model.profile import Profile
from cellwright.model.responses import ResponsesModel
from cellwright.record.reader import read_run
from cellwright.record.records import ModelRequest, ModelResponse, Note
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = Retrying(attempts=2, first_s=0.001)
TASK: Item = {"type": "message", "role": "user", "content": "Do it."}
LOOKS = (
    "```python\nx = 41\nlog('first')\n```\n---\nexpect: first\n```python\nlog(x + 1)\n```\n---\nexpect: 42\nIt is 42."
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[FaultyServer]:
    async with FaultyServer() as server:
        yield server


@pytest.fixture
def server(running: FaultyServer) -> FaultyServer:
    running.play(LOOKS)
    running.faults.clear()
    return running


def model_at(server: Front, profile: Profile | None = None, **asking) -> ResponsesModel:
    asked = Asking(**{"retrying": QUICK, **asking})
    return ResponsesModel("m", base_url=server.base_url, api_key="k", asking=asked, profile=profile)


async def driven(server: Front, profile: Profile | None = None, **asking) -> Outcome:
    model = model_at(server, profile, **asking)
    try:
        return await run("Do it.", model=model, backend=FakeBackend())
    finally:
        await model.close()


def parameters(outcome: Outcome) -> list[dict]:
    return [record.parameters for record in read_run(outcome.run_dir).records if isinstance(record, ModelRequest)]


async def test_chained_run_sends_only_what_is_new_and_the_instructions_each_time(server: FaultyServer) -> None:
    outcome = await driven(server, chains=True)
    assert (outcome.status, outcome.summary) == ("done", "It is 42.")
    kinds = [[item["type"] for item in body["input"]] for body in server.requests]
    assert kinds == [["message"], ["function_call_output"], ["function_call_output"]]
    assert [body["store"] for body in server.requests] == [True] * 3
    assert all(body["instructions"].startswith("You do a task") for body in server.requests)
    said = [asked.get("previous_response_id") for asked in parameters(outcome)]
    assert said == [body.get("previous_response_id") for body in server.requests]
    assert [one is None for one in said] == [True, False, False]


async def test_server_that_has_forgotten_is_sent_the_whole_and_chained_anew(server: FaultyServer) -> None:
    model = model_at(server, chains=True)
    heard: list[Heard] = []
    first = await model.respond(Request("", (TASK,), TOOLS), heard.append)
    history = (TASK, *(item.raw for item in first.items), answered(first.calls[0].call_id, told("first")))
    server.has(Fault("status", 400, "previous_response_not_found", param="previous_response_id"))
    second = await model.respond(Request("", history, TOOLS), heard.append)
    history = (*history, *(item.raw for item in second.items), answered(second.calls[0].call_id, told("42")))
    third = await model.respond(Request("", history, TOOLS), heard.append)
    await model.close()
    assert third.messages[0].text == "It is 42."
    sent = [(body.get("previous_response_id") is not None, len(body["input"])) for body in server.requests]
    assert sent == [(False, 1), (True, 1), (False, 4), (True, 1)]
    (told_of,) = [one for one in heard if isinstance(one, AskedOtherwise)]
    assert "has forgotten" in told_of.reason
    assert "previous_response_id" not in told_of.parameters


async def test_history_that_was_rewritten_is_sent_whole_and_chained_anew(server: FaultyServer) -> None:
    model = model_at(server, chains=True)
    first = await model.respond(Request("", (TASK,), TOOLS), [].append)
    rewritten: Item = {**TASK, "content": "Do it, as I said."}
    history = (rewritten, *(item.raw for item in first.items), answered(first.calls[0].call_id, told("first")))
    await model.respond(Request("", history, TOOLS), [].append)
    await model.close()
    assert [(body.get("previous_response_id"), len(body["input"])) for body in server.requests] == [
        (None, 1),
        (None, 4),
    ]


@pytest.mark.parametrize("chains", [True, False], ids=["chained", "stateless"])
async def test_run_is_the_same_whole_as_streamed(server: FaultyServer, chains: bool) -> None:
    outcome = await driven(server, streams=False, chains=chains)
    assert (outcome.status, outcome.summary, outcome.cells) == ("done", "It is 42.", 2)
    assert {body["stream"] for body in server.requests} == {False}
    responses = [record for record in read_run(outcome.run_dir).records if isinstance(record, ModelResponse)]
    assert len(responses) == 3


ODD = {
    "incomplete max_output_tokens": "cut off at its limit of tokens",
    "incomplete max_messages": "max_messages",
    "incomplete content_filter": "content filter",
    "incomplete steered": "steered",
    "failed server_error": "The model server broke off: the response failed",
    "cancelled": "ended as cancelled",
    "queued": "The model server broke off: ",
    "in_progress": "The model server broke off: ",
}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("status", ODD)
async def test_response_that_is_not_completed_ends_the_run_and_says_why(
    server: FaultyServer, status: str, streams: bool
) -> None:
    server.play(f"status: {status}\n```python\nlog(1)\n```")
    outcome = await driven(server, streams=streams, retrying=Retrying(attempts=1))
    assert (outcome.status, outcome.cells) == ("failed", 0)
    assert ODD[status] in str(outcome.reason)


async def test_what_the_user_chose_of_a_request_is_sent(server: FaultyServer) -> None:
    await driven(
        server,
        effort="high",
        service_tier="flex",
        metadata={"team": "a"},
        extra={"reasoning": {"summary": "auto"}, "truncation": "disabled", "include": ["message.output_text.logprobs"]},
    )
    for body in server.requests:
        assert body["reasoning"] == {"effort": "high", "summary": "auto"}
        assert (body["service_tier"], body["metadata"], body["truncation"]) == ("flex", {"team": "a"}, "disabled")
        assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]


async def test_one_cache_key_a_run_and_compaction_where_the_server_knows_them(server: FaultyServer) -> None:
    profile = Profile(name="able", compaction=True, cache_key=True)
    for _ in range(2):
        await driven(server, profile, compact_threshold=5000)
    keys = [body["prompt_cache_key"] for body in server.requests]
    assert (keys[0], keys[3]) == (keys[2], keys[5])
    assert keys[0] != keys[3]
    wanted = [{"type": "compaction", "compact_threshold": 5000}]
    assert all(body["context_management"] == wanted for body in server.requests)


async def test_poor_server_is_sent_nothing_that_it_does_not_know() -> None:
    poor = Profile(
        name="poor", streaming=False, store_flag=False, chaining=False, tool_images="follow_up", custom_tools=False,
        phase=False, encrypted_reasoning=False, parallel_flag=False, tool_choice=False, strict_tools=False,
        max_image_side=1000, max_images=1,
    )  # fmt: skip
    async with AbleServer(poor) as server:
        model = model_at(server, poor)
        said: Item = {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Hm."}]}  # fmt: skip
        pictures = [shown(png_of("red")), shown(png_of("blue", 1500)), shown(png_of("red"))]
        history = (TASK, said, CALL, answered("c1", *pictures))
        response = await model.respond(Request("Be good.", history, TOOLS, may_call=False), [].append)
        await model.close()
    assert response.messages[0].text.endswith("Picture 3: red")
    assert server.requests[0]["tools"] == []  # so it can make no further call
    assert set(server.requests[0]) == {"model", "instructions", "tools", "stream", "input"}


async def test_picture_that_the_server_refuses_is_left_out_and_the_turn_tried_once_more() -> None:
    """Case A11: one oversized picture, then ten turns."""
    able = Profile(name="able")
    async with AbleServer(replace(able, max_image_side=2000)) as server:
        model = model_at(server, able)
        heard: list[Heard] = []
        history: tuple[Item, ...] = (TASK, CALL, answered("c1", told("huge"), shown(png_of("red", 8000, 6000))))
        for number in range(10):
            response = await model.respond(Request("", history, TOOLS), heard.append)
            history = (
                *history,
                *(item.raw for item in response.items),
                {**CALL, "call_id": f"n{number}"},
                answered(f"n{number}", shown(png_of("red", 30 + number))),
            )
        await model.close()
    assert len(server.requests) == 11
    assert [one.reason.partition(": ")[2] for one in heard if isinstance(one, Retried)] == [
        "The image has 8000 pixels a side. It is asked again without that picture."
    ]
    last = server.requests[-1]["input"]
    assert last[2]["output"] == [told("huge"), told("[A picture was left out: the model server refused it.]")]
    assert json.dumps(last).count('"input_image"') == 9


async def test_picture_beyond_the_profiles_limit_is_never_sent() -> None:
    limited = Profile(name="able", max_image_side=2000)
    async with AbleServer(limited) as server:
        model = model_at(server, limited)
        history = (TASK, CALL, answered("c1", shown(png_of("red", 8000, 6000))))
        response = await model.respond(Request("", history, TOOLS), [].append)
        await model.close()
    assert (len(server.requests), "8000x6000" in response.messages[0].text) == (1, True)


async def test_refusal_that_names_no_picture_costs_the_new_ones_only(server: FaultyServer) -> None:
    model = model_at(server)
    first = await model.respond(Request("", (TASK,), TOOLS), [].append)
    old, new = shown(png_of("red", 10)), shown(png_of("red", 20))
    history = (TASK, *(item.raw for item in first.items), answered(first.calls[0].call_id, told("first"), old))
    second = await model.respond(Request("", history, TOOLS), [].append)
    history = (*history, *(item.raw for item in second.items), answered(second.calls[0].call_id, told("42"), new))
    server.has(Fault("status", 400, message="Could not process image."))
    await model.respond(Request("", history, TOOLS), [].append)
    await model.close()
    outputs = [item["output"] for item in server.requests[-1]["input"] if item["type"] == "function_call_output"]
    assert outputs[0][1] == old
    assert outputs[1][1]["type"] == "input_text"


async def test_refusal_that_is_not_about_a_picture_drops_none(server: FaultyServer) -> None:
    outcome = await driven(server.has(Fault("status", 400, message="Unknown parameter.")))
    assert (outcome.status, len(server.requests)) == ("failed", 1)
    notes = [record for record in read_run(outcome.run_dir).records if isinstance(record, Note)]
    assert [note for note in notes if note.topic == "retry"] == []


class PlainCode(AbleServer):
    """Its model calls the custom tool once, and then says what it was answered."""

    def _response(self, history):
        response = super()._response(history)
        if any(item.get("type") == "custom_tool_call_output" for item in history):
            return response
        call = {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "c1",
            "name": "exec_py",
            "input": 'log("ü\\n" * 2)',
        }
        return {**response, "output": [*response["output"][:1], call]}


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_code_as_plain_text_is_executed_and_answered_as_that_tools(streams: bool) -> None:
    able = Profile(name="able")
    async with PlainCode(able) as server:
        outcome = await driven(server, able, custom_tools=True, streams=streams)
    assert (outcome.status, outcome.cells) == ("done", 1), outcome.reason
    assert "ü\nü" in str(outcome.summary)
    assert [tool["type"] for tool in server.requests[0]["tools"]] == ["custom", "custom"]
    assert [item["type"] for item in server.requests[1]["input"]][-2:] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]


async def test_plain_code_arrives_in_pieces_as_the_arguments_of_any_call() -> None:
    call = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "exec_py", "input": 'log("a")\n1'}
    pieces = ['log("', 'a")\n', "1"]
    delta = {
        "type": "response.custom_tool_call_input.delta",
        "output_index": 0,
        "item_id": "ctc_1",
        "sequence_number": 0,
    }
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**call, "input": ""}, "sequence_number": 0},
        *({**delta, "delta": piece} for piece in pieces),
        {**delta, "type": "response.custom_tool_call_input.done", "input": call["input"]},
        {"type": "response.output_item.done", "output_index": 0, "item": call, "sequence_number": 0},
        {
            "type": "response.completed",
            "sequence_number": 0,
            "response": {"id": "r", "status": "completed", "output": []},
        },
    ]

    class Streams(AbleServer):
        async def answer(self, _):
            text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            return HttpResponse(text, media_type="text/event-stream")

    heard: list[Heard] = []
    async with Streams(Profile(name="able")) as server:
        model = model_at(server, custom_tools=True)
        response = await model.respond(Request("", (TASK,), TOOLS), heard.append)
        await model.close()
    arguments = "".join(one.text for one in heard if isinstance(one, Delta))
    assert json.loads(arguments) == {"code": 'log("a")\n1'} == json.loads(response.calls[0].arguments)
    assert {one.name for one in heard if isinstance(one, Delta)} == {"exec_py"}


async def test_item_that_the_server_shortened_the_conversation_to_is_kept_and_sent_again() -> None:
    class Compacts(AbleServer):
        def _response(self, history):
            response = super()._response(history)
            item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk", "created_by": "server"}
            return {**response, "output": [item, *response["output"]]}

    able = Profile(name="able", compaction=True)
    async with Compacts(able) as server:
        model = model_at(server, able, compact_threshold=1000)
        first = await model.respond(Request("", (TASK,), TOOLS), [].append)
        await model.respond(Request("", (TASK, *(item.raw for item in first.items), TASK), TOOLS), [].append)
        await model.close()
    assert isinstance(first.items[0], OtherItem)
    assert server.requests[1]["input"][1] == {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}


CALL: Item = {"type": "function_call", "call_id": "c1", "name": "exec_py", "arguments": "{}"}
TOOLS: tuple[Item, ...] = tuple(
    {
        "type": "function",
        "name": name,
        "strict": True,
        "description": "",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
            "additionalProperties": False,
        },
    }
    for name in ("exec_py", "exec_js")
)


def told(text: str) -> Item:
    return {"type": "input_text", "text": text}


def shown(url: str) -> Item:
    return {"type": "input_image", "image_url": url, "detail": "original"}


def answered(call_id: str, *parts: dict) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": [*parts]}


def png_of(colour: str, width: int = 8, height: int = 8) -> str:
    stored = io.BytesIO()
    picture = Image.new("P", (width, height))
    picture.putpalette([220, 20, 20] if colour == "red" else [20, 20, 220])
    picture.save(stored, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(stored.getvalue()).decode()
