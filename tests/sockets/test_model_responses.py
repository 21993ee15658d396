"""The adapter to the Responses API: what it sends, what it makes of what comes, and what it says when nothing does."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.routing import Route
from tests.waiting import GUARD_S

from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.errors import ModelError, UsageError
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import Call, Delta, Message, OtherItem, Request, Response
from cellwright.model.responses import ResponsesModel

ONCE = Asking(retrying=Retrying(attempts=1))
KEY = "sk-proj-abcdefghijklmnop"
ASKED = Request("Be good.", ({"type": "message", "role": "user", "content": "Do it."},), ())


pytestmark = pytest.mark.asyncio(loop_scope="module")


class OddServer(Emulator):
    """A server that answers with what a test wants."""

    def says(self, body: str, *, status: int = 200, kind: str = "text/event-stream") -> OddServer:
        self.said = HttpResponse(body, status, media_type=kind)
        return self

    def _app(self) -> Starlette:
        async def say(_: HttpRequest) -> HttpResponse:
            return self.said

        return Starlette(routes=[Route("/v1/responses", say, methods=["POST"])])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def emulator() -> AsyncIterator[Emulator]:
    """One server for all tests here: starting and ending one takes 0.2 s."""
    async with Emulator(Script.parse("Nothing.")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def odd() -> AsyncIterator[OddServer]:
    async with OddServer(Script.parse("Nothing.")) as running:
        yield running


async def asked(server: Emulator, request: Request = ASKED, deltas: list[Delta] | None = None) -> Response:
    model = ResponsesModel("m", base_url=server.base_url, api_key=KEY, asking=ONCE)
    try:
        return await model.respond(request, [].append if deltas is None else deltas.append)
    finally:
        await model.close()


def script(emulator: Emulator, text: str) -> Emulator:
    emulator.play(Script.parse(text))
    return emulator


def sse(*events: dict) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


async def test_items_are_typed_and_kept_as_they_came(emulator: Emulator):
    tools = ({"type": "function", "name": "exec_py", "strict": False, "parameters": None},)
    response = await asked(script(emulator, "I look.\n```python\nlog(1)\n```"), Request("", ASKED.history, tools))
    reasoning, message, call = response.items
    assert isinstance(reasoning, OtherItem)
    assert reasoning.raw["encrypted_content"]
    assert isinstance(message, Message)
    assert (message.text, message.phase, message.refusal) == ("I look.", "commentary", None)
    assert isinstance(call, Call)
    assert (call.name, json.loads(call.arguments)) == ("exec_py", {"code": "log(1)"})
    assert call.raw["call_id"] == call.call_id
    assert response.raw["output"] == [item.raw for item in response.items]
    assert "async" not in call.raw  # what the server left out is not sent back to it


async def test_deltas_are_forwarded_by_kind(emulator: Emulator):
    deltas: list[Delta] = []
    await asked(script(emulator, "refusal: I won't.\nBut hello."), deltas=deltas)
    assert [(delta.kind, delta.text) for delta in deltas] == [("text", "But hello."), ("refusal", "I won't.")]


async def test_fields_that_the_sdk_does_not_know_survive(odd: OddServer):
    item = {"type": "novelty", "id": "n_1", "flavour": {"sweet": True}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item, "sequence_number": 0}
    end = {
        "type": "response.completed",
        "sequence_number": 1,
        "response": {"id": "r", "status": "completed", "output": [item]},
    }
    response = await asked(odd.says(sse(done, end)))
    assert [dict(one.raw) for one in response.items] == [item]
    assert response.usage.total_tokens == 0


async def test_server_that_only_lists_its_items_at_the_end_is_understood(odd: OddServer):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    end = {
        "type": "response.completed",
        "sequence_number": 0,
        "response": {"id": "r", "status": "completed", "output": [message]},
    }
    response = await asked(odd.says(sse(end)))
    assert [one.text for one in response.messages] == ["Hi."]


BROKEN = {
    "nothing": ("", "ended before the response did"),
    "error event": (sse({"type": "error", "message": "overloaded", "code": None, "param": None, "sequence_number": 0}), "overloaded"),
    "no JSON": ("event: response.created\ndata: {oops\n\n", "broke off: it sent what is no event"),
    "a number": ("event: response.created\ndata: 5\n\n", "broke off"),
    "HTML": ("<html>not an API</html>", "ended before the response did"),
}  # fmt: skip


@pytest.mark.parametrize("title", BROKEN)
async def test_broken_stream_is_a_model_error(odd: OddServer, title: str):
    body, said = BROKEN[title]
    with pytest.raises(ModelError, match=said):
        await asked(odd.says(body))


STREAM = [
    {"type": "response.created", "sequence_number": 0, "response": {"id": "r", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "exec_py", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "sequence_number": 2, "output_index": 0, "item_id": "fc_1", "delta": "{}"},
    {"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "exec_py", "arguments": "{}"}},
    {"type": "response.custom_tool_call_input.delta", "sequence_number": 4, "output_index": 1, "item_id": "ctc_1", "delta": "1"},
    {"type": "response.custom_tool_call_input.done", "sequence_number": 5, "output_index": 1, "item_id": "ctc_1", "input": "1"},
    {"type": "response.output_item.done", "sequence_number": 6, "output_index": 2, "item": {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}},
    {"type": "response.output_text.delta", "sequence_number": 7, "output_index": 2, "content_index": 0, "item_id": "msg_1", "delta": "Hi.", "logprobs": []},
    {"type": "response.incomplete", "sequence_number": 8, "response": {"id": "r", "status": "incomplete", "incomplete_details": {"reason": "steered"}, "error": None, "output": [], "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}}},
]  # fmt: skip
"""A response that is whole, and whose every part is replaced by something else in turn."""


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every part of a value."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from places(part, (*path, name))


def with_part(value, path: tuple[str | int, ...], part: object):
    if not path:
        return part
    changed = copy.copy(value)
    changed[path[0]] = with_part(value[path[0]], path[1:], part)
    return changed


@pytest.mark.slow
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_whatever_a_server_sends_is_a_response_or_a_model_error(odd: OddServer, streams: bool):
    asking = Asking(streams=streams, retrying=Retrying(attempts=1))
    model = ResponsesModel("m", base_url=odd.base_url, api_key=KEY, asking=asking)
    sound = STREAM if streams else STREAM[-1]["response"]
    outcomes = Counter[str]()
    for path in [path for path in places(sound) if path]:
        for part in (None, 5, -1.5, "x", [], {}, [{"type": 1}], {"type": "function_call"}):
            came = with_part(sound, path, part)
            if streams:
                odd.says("".join(f"data: {json.dumps(event)}\n\n" for event in came))
            else:
                odd.says(json.dumps(came), kind="application/json")
            try:
                response = await model.respond(ASKED, lambda _: None)
            except ModelError:
                outcomes["error"] += 1
            else:
                assert response.usage.total_tokens <= 15
                assert isinstance(json.dumps(response.raw), str)
                outcomes["response"] += 1
    await model.close()
    assert min(outcomes["error"], outcomes["response"]) > 0


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "See its message"), (401, "Check OPENAI_API_KEY"), (404, "--base-url"), (429, "limits"), (503, "later")],
)
async def test_refusal_says_what_it_usually_means_what_is_left_and_what_to_do(odd: OddServer, status: int, advice: str):
    body = json.dumps({"error": {"message": f"No. Your key is {KEY}", "type": "x", "param": None, "code": None}})
    with pytest.raises(ModelError) as caught:
        await asked(odd.says(body, status=status, kind="application/json"))
    said = str(caught.value)
    assert f"status {status}" in said
    assert "is recorded" in said
    assert advice in said


async def test_key_is_in_no_message_and_no_cause(odd: OddServer):
    body = json.dumps({"error": {"message": f"Incorrect: {KEY} or sk-proj-ab***op", "type": "x", "code": None}})
    with pytest.raises(ModelError) as caught:
        await asked(odd.says(body, status=401, kind="application/json"))
    assert "sk-" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_fault_of_whoever_looks_on_is_not_taken_for_one_of_the_server(emulator: Emulator):
    def look(_: object) -> None:
        raise ValueError("a view that is broken")

    model = ResponsesModel("m", base_url=script(emulator, "Hi.").base_url, api_key=KEY)
    with pytest.raises(ValueError, match="a view that is broken"):
        await model.respond(ASKED, look)
    await model.close()
    assert len(emulator.requests) == 1


async def test_answer_that_is_no_json_broke_off(odd: OddServer):
    asking = Asking(streams=False, retrying=Retrying(attempts=1))
    model = ResponsesModel(
        "m", base_url=odd.says("{oops", kind="application/json").base_url, api_key=KEY, asking=asking
    )
    with pytest.raises(ModelError, match="no JSON"):
        await model.respond(ASKED, [].append)
    await model.close()


async def test_key_is_not_in_the_repr():
    model = ResponsesModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    assert "sk-" not in repr(model)
    await model.close()


async def test_key_is_not_among_the_parameters():
    model = ResponsesModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY)
    assert "sk-" not in json.dumps(model.parameters(ASKED))
    await model.close()


async def test_server_that_is_not_there_is_said():
    model = ResponsesModel("m", base_url="http://127.0.0.1:9/v1", api_key=KEY, asking=ONCE)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9.*could not be reached"):
        await model.respond(ASKED, [].append)
    await model.close()


async def test_proxy_of_the_environment_is_not_used_for_loopback(emulator: Emulator, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert (await asked(script(emulator, "Hi."))).messages[0].text == "Hi."


async def test_another_server_needs_no_key(emulator: Emulator):
    model = ResponsesModel("m", base_url=script(emulator, "Hi.").base_url)
    assert (await model.respond(ASKED, [].append)).messages[0].text == "Hi."
    await model.close()


async def test_no_key_and_no_server_is_used_wrongly():
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        ResponsesModel("m")


async def test_cancelling_while_the_model_thinks_leaves_no_connection(emulator: Emulator):
    waiting = asyncio.ensure_future(asked(script(emulator, "wait: 0.3\nHi.")))
    async with asyncio.timeout(GUARD_S):
        while not emulator.requests:  # noqa: ASYNC110 - the fact is on the other side of a socket
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_address_is_told_without_its_name_password_and_query():
    model = ResponsesModel("m", base_url="http://ann:hunter2@127.0.0.1:9/v1?key=s3cret", api_key=KEY, asking=ONCE)
    with pytest.raises(ModelError, match=r"The model server at http://127.0.0.1:9/v1/ could not be reached") as raised:
        await model.respond(ASKED, lambda _: None)
    await model.close()
    assert not re.search("hunter2|s3cret", f"{raised.value} {model!r}")
