"""A model server that answers what was made up to do harm: it is a `ModelError` or a response, and never another fault of ours."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from starlette.responses import Response as HttpResponse
from tests.front import Front

from cellwright.errors import ModelError
from cellwright.loop import run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.base import Delta, Heard, Request, Response
from cellwright.model.probe import probe
from cellwright.model.responses import ResponsesModel
from cellwright.testing.fake_sandbox import FakeBackend

pytestmark = pytest.mark.asyncio(loop_scope="module")

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,aa"}
ASKED = Request("Be good.", ({"type": "message", "role": "user", "content": [PICTURE]},), ())
SAYS = '{"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}'
HALF = "\\ud800"
"""Half a character, as JSON can say it."""


class Says(Front):
    """Answers with what was given to it, one text a request, the last one again and again."""

    def says(
        self,
        *texts: bytes | str,
        status: int = 200,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Says:
        self.texts, self.status, self.kind, self.headers = [*texts], status, kind, headers
        self.requests.clear()
        return self

    async def answer(self, _: dict) -> HttpResponse:
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return HttpResponse(text, self.status, self.headers, media_type=self.kind)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Says]:
    async with Says() as running:
        yield running


def model_at(server: Says, **asking) -> ResponsesModel:
    asked = Asking(**{"streams": False, "retrying": Retrying(attempts=2, first_s=0.001), **asking})
    return ResponsesModel("m", base_url=server.base_url, api_key="key-of-a-test", asking=asked)


async def answered(server: Says, heard: list[Heard] | None = None, **asking) -> Response:
    model = model_at(server, **asking)
    try:
        return await model.respond(ASKED, [].append if heard is None else heard.append)
    finally:
        await model.close()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def whole(*items: str, more: str = "") -> str:
    return f'{{"id": "r", "object": "response", "status": "completed", "output": [{", ".join(items)}]{more}}}'


def called(call_id: str = "c", code: str = "1") -> str:
    return f'{{"type": "function_call", "call_id": "{call_id}", "name": "exec_py", "arguments": "{{\\"code\\": \\"{code}\\"}}"}}'


def streamed(*events: str) -> str:
    return "".join(f"data: {event}\n\n" for event in events)


def thought(depth: int) -> str:
    return f'{{"type": "reasoning", "id": "a", "summary": [], "x": {nested(depth)}}}'


UNREADABLE = {
    "nested without end": nested(100_000),
    "an item that is nested": whole(thought(400)),
    "a number without end": whole(more=f', "x": {"9" * 5000}'),
    "no text": b'{"id": "r", "status": "completed", "output": [], "x": "\xff\xfe"}',
    "half a character in a name": whole(f'{{"type": "reasoning", "{HALF}": 1}}'),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_body_that_cannot_be_read_broke_off(server: Says, what: str) -> None:
    with pytest.raises(ModelError, match="The model server broke off: it answered with what "):
        await answered(server.says(UNREADABLE[what]))
    assert len(server.requests) == 2


UNREADABLE_EVENTS = {
    "nested without end": nested(100_000),
    "an item that is nested": f'{{"type": "response.output_item.done", "output_index": 0, "item": {thought(400)}}}',
    "an item at no place": f'{{"type": "response.output_item.done", "output_index": 1e999, "item": {SAYS}}}',
    "a response that is nested": f'{{"type": "response.completed", "response": {whole(thought(400))}}}',
    "a response with the SDK's own fields": '{"type": "response.cancelled", "response": {"_fields_set": ["a"]}}',
    "an error whose code is a list": '{"type": "error", "code": ["a"], "message": ["b"]}',
}


@pytest.mark.parametrize("what", UNREADABLE_EVENTS)
async def test_event_that_cannot_be_read_broke_off(server: Says, what: str) -> None:
    with pytest.raises(ModelError, match="The model server broke off: "):
        await answered(server.says(streamed(UNREADABLE_EVENTS[what]), kind="text/event-stream"), streams=True)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [400, 429])
@pytest.mark.parametrize("part", [5, ["x"], {"a": 1}])
async def test_refusal_whose_words_are_no_words_is_one(server: Says, status: int, part: object) -> None:
    said = {"error": {"code": part, "message": f"image {part}", "param": part, "type": part}}
    with pytest.raises(ModelError, match=f"refused the request with status {status}: image"):
        await answered(server.says(json.dumps(said), status=status))


async def test_half_a_character_of_a_server_is_a_question_mark_in_pieces_too(server: Says) -> None:
    delta = f'{{"type": "response.output_text.delta", "item_id": "m", "delta": "a{HALF}"}}'
    end = f'{{"type": "response.completed", "response": {whole(SAYS.replace("Hi.", f"é{HALF}"))}}}'
    heard: list[Heard] = []
    response = await answered(server.says(streamed(delta, end), kind="text/event-stream"), heard, streams=True)
    assert [one.text for one in response.messages] == ["é?"]
    assert [one.text for one in heard if isinstance(one, Delta)] == ["a?"]


HALVES = {
    "its id": called(call_id=f"c{HALF}"),
    "its code": called(code=f"1 # {HALF}"),
    "its tool": called().replace("exec_py", f"exec_py{HALF}"),
}


@pytest.mark.parametrize("what", HALVES)
async def test_call_with_half_a_character_is_answered_and_the_run_goes_on(server: Says, what: str) -> None:
    model = model_at(server.says(whole(HALVES[what]), whole(SAYS)))
    outcome = await run("Do it.", model=model, backend=FakeBackend())
    await model.close()
    assert (outcome.status, outcome.summary) == ("done", "Hi.")
    assert [item["type"] for item in server.requests[1]["input"]] == [
        "message",
        "function_call",
        "function_call_output",
    ]


async def test_probe_of_a_server_whose_body_cannot_be_read_is_an_error(
    server: Says, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cellwright.model.retrying.random.random", lambda: 0.0)
    with pytest.raises(ModelError, match="it answered with what is no JSON"):
        await probe("m", base_url=server.says(nested(100_000)).base_url, api_key="k")


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_response_without_end_broke_off(server: Says, monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    monkeypatch.setattr("cellwright.model.bounded.MOST_BYTES", 100_000)
    kind = "text/event-stream" if streams else "application/json"
    with pytest.raises(ModelError, match="The model server broke off: it sent more than 100000 bytes"):
        await answered(server.says("data: " + "x" * 200_000, kind=kind), streams=streams)
    assert len(server.requests) == 2


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_what_comes_packed_is_not_unpacked(server: Says, streams: bool) -> None:
    server.says(gzip.compress(bytes(1_000_000)), headers={"Content-Encoding": "gzip"})
    with pytest.raises(ModelError, match=r"The model server broke off: it sent its answer packed \(gzip\)"):
        await answered(server, streams=streams)
    assert len(server.requests) == 2
