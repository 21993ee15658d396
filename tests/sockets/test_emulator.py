"""The emulator refuses what the Responses API refuses, and plays a script to any client of it."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
import openai
import pytest
import pytest_asyncio

from cellwright.emulator.faults import PlannedFault
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator
from cellwright.errors import EnvironmentMissing
from cellwright.model.tools import tools_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
TOOLS = [dict(tool) for tool in tools_for(["python"], width=1440, height=1000, page_height=900)]
TASK = {"type": "message", "role": "user", "content": "Do it."}
SCRIPT = Script.parse("I look.\n```python\nlog(1)\n```\n---\nexpect: 1\nDone.")

Post = Callable[..., Awaitable[httpx2.Response]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Emulator]:
    async with Emulator(SCRIPT) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def post(server: Emulator) -> AsyncIterator[Post]:
    server.play(SCRIPT)
    headers = {"Authorization": "Bearer k"}
    async with httpx2.AsyncClient(base_url=server.base_url, headers=headers, trust_env=False, verify=False) as client:

        async def send(**body) -> httpx2.Response:
            return await client.post("/responses", json={"model": "m", "tools": TOOLS, "input": [TASK], **body})

        yield send


async def first_output(post: Post, **more) -> list[dict]:
    answer = await post(**more)
    assert answer.status_code == 200, answer.text
    return answer.json()["output"]


def answered(call: dict, output: object) -> dict:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": output}


async def test_stateless_conversation(post: Post):
    output = await first_output(post, store=False)
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call"]
    assert output[1]["phase"] == "commentary"
    assert json.loads(output[2]["arguments"]) == {"code": "log(1)"}
    text = [{"type": "input_text", "text": "1"}]
    last = await first_output(post, store=False, input=[TASK, *output, answered(output[2], text)])
    assert (last[1]["content"][0]["text"], last[1]["phase"]) == ("Done.", "final_answer")


async def test_chained_conversation(post: Post):
    first = (await post()).json()
    output = answered(first["output"][2], "1")
    second = (await post(previous_response_id=first["id"], input=[output])).json()
    assert second["output"][1]["content"][0]["text"] == "Done."


async def test_response_that_was_not_stored_cannot_be_chained(post: Post):
    first = (await post(store=False)).json()
    answer = await post(previous_response_id=first["id"], input=[answered(first["output"][2], "1")])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "previous_response_not_found")


async def test_two_conversations_at_once_do_not_disturb_each_other(post: Post):
    one, two = await first_output(post), await first_output(post)
    for output in (two, one):
        last = await first_output(post, input=[TASK, *output, answered(output[2], "1")])
        assert last[1]["content"][0]["text"] == "Done."


HEADS = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4) + bytes(8),
    "jpeg": b"\xff\xd8\xff\xc0\0\x11\x08" + (480).to_bytes(2) + (640).to_bytes(2) + bytes(8),
}


@pytest.mark.parametrize("kind", HEADS)
async def test_usage_counts_an_image_by_its_patches(post: Post, kind: str):
    url = f"data:image/{kind};base64,{base64.b64encode(HEADS[kind]).decode()}"
    content = [{"type": "input_image", "image_url": url, "detail": "original"}]
    usage = [
        (await post(input=[{"role": "user", "content": parts}])).json()["usage"]["input_tokens"]
        for parts in ([], content)
    ]
    assert usage[1] - usage[0] == 20 * 15


async def test_no_key_is_refused(server: Emulator):
    async with httpx2.AsyncClient(base_url=server.base_url, trust_env=False, verify=False) as client:
        answer = await client.post("/responses", json={"model": "m", "input": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_body_that_is_not_json_is_refused(server: Emulator):
    headers = {"Authorization": "Bearer k"}
    async with httpx2.AsyncClient(base_url=server.base_url, headers=headers, trust_env=False, verify=False) as client:
        answer = await client.post("/responses", content=b"{")
    assert answer.status_code == 400


SIMPLE = {
    "no model": ({"model": ""}, "model"),
    "unknown parameter": ({"modle": "m"}, "Unknown parameter: 'modle'"),
    "empty input": ({"input": []}, "'input'"),
    "input of numbers": ({"input": [1]}, "must be an object"),
    "unknown item": ({"input": [TASK, {"type": "thought"}]}, "'thought'"),
    "unknown role": ({"input": [{"role": "me", "content": "x"}]}, "'me'"),
    "user speaks output": ({"input": [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}]}, "output"),
    "answer without call": ({"input": [TASK, {"type": "function_call_output", "call_id": "c", "output": "x"}]}, "No tool call"),
    "unknown response": ({"previous_response_id": "resp_1"}, "not found"),
    "tool that is not strict": ({"tools": [{**TOOLS[0], "parameters": {"type": "object", "properties": {}}}]}, "schema"),
    "unknown tool type": ({"tools": [{"type": "computer"}]}, "function tools"),
    "reasoning without its content": ({"store": False, "input": [TASK, {"type": "reasoning", "id": "rs_1", "summary": []}]}, "not persisted"),
}  # fmt: skip


@pytest.mark.parametrize("title", SIMPLE)
async def test_request_is_refused(post: Post, title: str):
    body, said = SIMPLE[title]
    answer = await post(**body)
    error = answer.json()["error"]
    assert answer.status_code in (400, 404)
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]


ANSWERS = {
    "empty list": ([], "non-empty"),
    "empty string": ("", "non-empty"),
    "number": (1, "non-empty"),
    "unknown part": ([{"type": "text", "text": "x"}], "'text'"),
    "text that is none": ([{"type": "input_text", "text": 1}], "text"),
    "image without detail": ([{"type": "input_image", "image_url": PNG}], "detail"),
    "image of a web page": ([{"type": "input_image", "image_url": "http://x/y.png", "detail": "auto"}], "data URL"),
    "broken base64": ([{"type": "input_image", "image_url": PNG + "!", "detail": "auto"}], "base64"),
    "no image": ([{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}], "valid image"),
}


@pytest.mark.parametrize("title", ANSWERS)
async def test_answer_is_refused(post: Post, title: str):
    output, said = ANSWERS[title]
    first = await first_output(post)
    answer = await post(input=[TASK, *first, answered(first[2], output)])
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_call_without_answer_is_refused(post: Post):
    first = await first_output(post)
    answer = await post(input=[TASK, *first])
    assert f"No tool output found for function call {first[2]['call_id']}" in answer.json()["error"]["message"]


async def test_second_answer_is_refused(post: Post):
    first = await first_output(post)
    answer = await post(input=[TASK, *first, answered(first[2], "1"), answered(first[2], "1")])
    assert "Duplicate" in answer.json()["error"]["message"]


async def test_call_without_its_reasoning_is_refused(post: Post):
    first = await first_output(post)
    answer = await post(input=[TASK, *first[1:], answered(first[2], "1")])
    assert "without its required 'reasoning' item" in answer.json()["error"]["message"]


async def test_expectation_that_is_not_met_is_refused_and_shows_what_came(post: Post):
    first = await first_output(post)
    answer = await post(input=[TASK, *first, answered(first[2], "two")])
    error = answer.json()["error"]
    assert error["code"] == "script_expectation_failed"
    assert "expected '1'" in error["message"]
    assert "two" in error["message"]


CALLS_BADLY = (
    "malformed_arguments",
    "arguments_not_object",
    "no_code",
    "extra_argument",
    "unknown_tool",
    "one_bad_call",
)


@pytest.mark.parametrize("fault", CALLS_BADLY)
async def test_expectation_is_not_held_against_the_answer_to_a_call_of_a_fault(
    post: Post, server: Emulator, fault: str
):
    server.play(SCRIPT.with_faults([PlannedFault(fault, 2)]))
    history = [TASK, *(first := await first_output(post)), answered(first[-1], "1")]
    faulty = await first_output(post, input=history)
    calls = [item for item in faulty if item["type"] == "function_call"]
    history += [*faulty, *(answered(call, "It cannot be used.") for call in calls)]
    (_, said) = await first_output(post, input=history)
    assert said["content"][0]["text"] == "Done."


async def test_expectation_that_is_not_met_is_told_before_a_fault_of_its_turn(post: Post, server: Emulator):
    server.play(SCRIPT.with_faults([PlannedFault("malformed_arguments", 2)]))
    first = await first_output(post)
    answer = await post(input=[TASK, *first, answered(first[-1], "two")])
    assert answer.json()["error"]["code"] == "script_expectation_failed"


async def test_image_can_be_expected(post: Post, server: Emulator):
    server.play(Script.parse("```python\nlog(1)\n```\n---\nexpect: image\nSeen."))
    for output, status in (("text", 400), ([{"type": "input_image", "image_url": PNG, "detail": "original"}], 200)):
        first = await first_output(post)
        answer = await post(input=[TASK, *first, answered(first[-1], output)])
        assert answer.status_code == status


async def test_sdk_reads_the_stream(server: Emulator):
    server.play(SCRIPT)
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", http_client=http) as client:
        stream = await client.responses.create(model="m", input="Do it.", tools=TOOLS, stream=True)
        events = [event async for event in stream]
        whole = await client.responses.create(model="m", input="Do it.", tools=TOOLS)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "I look."
    assert whole.output_text == "I look."
    assert [item.type for item in whole.output] == [item.type for item in events[-1].response.output]


async def test_port_that_is_taken_is_said(server: Emulator):
    port = int(server.base_url.split(":")[2].split("/")[0])
    with pytest.raises(EnvironmentMissing, match=f"127.0.0.1:{port}"):
        async with Emulator(SCRIPT, port=port):
            pass
