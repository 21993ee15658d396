"""What servers allow differently, custom tools, compaction and the prompt's cache, over real HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import openai
import pytest

from cellwright.emulator.rules import ServerRules
from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator

TASK = {"type": "message", "role": "user", "content": "Do it."}
CUSTOM = {"type": "custom", "name": "shell", "description": "Types it."}
FUNCTION = {"type": "function", "name": "f", "strict": False, "parameters": {"type": "object", "properties": {}}}
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
IMAGE = {"type": "input_image", "image_url": PNG, "detail": "auto"}
SHELL = 'turns:\n- custom_call: {name: shell, input: "ls \\"x\\""}\n- expect: one\n  say: Done.\n'

Post = Callable[..., Awaitable[httpx2.Response]]


@asynccontextmanager
async def serving(script: str = "Hi.", form: str = "markdown", **rules) -> AsyncIterator[tuple[Emulator, Post]]:
    async with Emulator(Script.parse(script, form=form), rules=ServerRules(**rules)) as server:
        headers = {"Authorization": "Bearer k"}
        async with httpx2.AsyncClient(
            base_url=server.base_url, headers=headers, trust_env=False, verify=False
        ) as client:

            async def post(**body) -> httpx2.Response:
                return await client.post("/responses", json={"model": "m", "input": [TASK], **body})

            yield server, post


def error(answer: httpx2.Response) -> tuple[int, str | None, str | None]:
    said = answer.json()["error"]
    return answer.status_code, said["code"], said["param"]


@pytest.mark.parametrize("chains", [False, True])
async def test_custom_tool_is_called_with_a_text_and_answered_in_its_own_kind(chains: bool):
    async with serving(SHELL, "yaml") as (server, post):
        first = (await post(tools=[CUSTOM])).json()
        (call,) = first["output"][1:]
        assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "shell", 'ls "x"')
        answer = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "one"}
        if chains:
            body = {"previous_response_id": first["id"], "input": [answer]}
        else:
            body = {"input": [TASK, *first["output"], answer]}
        assert (await post(tools=[CUSTOM], **body)).json()["output"][-1]["content"][0]["text"] == "Done."
        assert server.seen[-1].answers == {call["call_id"]: "one"}
        wrong = {**answer, "type": "function_call_output"}
        refused = await post(tools=[CUSTOM], input=[TASK, *first["output"], wrong])
        assert "No tool call found for function call output" in refused.json()["error"]["message"]
        refused = await post(tools=[CUSTOM], input=[TASK, *first["output"]])
        assert "No tool output found for custom tool call" in refused.json()["error"]["message"]


async def test_sdk_reads_a_stream_with_a_custom_call_and_a_summary():
    script = "turns:\n- reasoning: I think about it at some length here.\n  custom_call: {name: shell, input: ls}\n"
    async with serving(script, "yaml") as (server, _):
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key="k", http_client=http) as client:
            stream = await client.responses.create(model="m", input="Do it.", tools=[CUSTOM], stream=True)
            events = [event async for event in stream]
    typed = {event.type: event for event in events}
    assert typed["response.custom_tool_call_input.done"].input == "ls"
    assert typed["response.reasoning_summary_text.done"].text == "I think about it at some length here."
    assert [item.type for item in events[-1].response.output] == ["reasoning", "custom_tool_call"]
    assert all(type(event).__name__ != "dict" for event in events)


RULES = {
    "no custom tools": ({"custom_tools": False}, {"tools": [CUSTOM]}, (400, "invalid_value", "tools[0]")),
    "no chaining": (
        {"chaining": False},
        {"previous_response_id": "resp_1"},
        (400, "unsupported_parameter", "previous_response_id"),
    ),
    "few images": (
        {"max_images": 1},
        {"input": [{"role": "user", "content": [IMAGE, IMAGE]}]},
        (400, "too_many_images", "input"),
    ),
    "small images": (
        {"max_image_bytes": 20},
        {"input": [{"role": "user", "content": [IMAGE]}]},
        (400, "image_file_too_large", "input[0].content[0].image_url"),
    ),
    "short context": ({"context_tokens": 50}, {"input": "x" * 400}, (400, "context_length_exceeded", "input")),
    "two tools of a name": ({}, {"tools": [FUNCTION, FUNCTION]}, (400, "invalid_value", "tools")),
    "conversation and response": (
        {},
        {"previous_response_id": "resp_1", "conversation": "conv_1"},
        (400, "mutually_exclusive_parameters", "previous_response_id"),
    ),
    "too few tokens": ({}, {"max_output_tokens": 15}, (400, "integer_below_min_value", "max_output_tokens")),
    "open schema": (
        {},
        {"text": {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": {"type": "object"}}}},
        (400, "invalid_json_schema", "text.format.schema"),
    ),
    "object without the word": ({}, {"text": {"format": {"type": "json_object"}}}, (400, None, "input")),
    "what the SDK's types lack": ({}, {"reasoning": {"efort": "low"}}, (400, "unknown_parameter", "reasoning.efort")),
    "what they have otherwise": ({}, {"reasoning": {"effort": "huge"}}, (400, "invalid_value", "reasoning.effort")),
    "what they need": (
        {},
        {"text": {"format": {"type": "json_schema", "name": "x"}}},
        (400, "missing_required_parameter", "text.format.schema"),
    ),
    "same call twice": (
        {},
        {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}] * 2},
        (400, None, "input"),
    ),
}


@pytest.mark.parametrize("title", RULES)
async def test_rule_is_kept(title: str):
    rules, body, refused = RULES[title]
    async with serving(**rules) as (_, post):
        assert error(await post(**body)) == refused


async def test_tool_that_answers_with_a_picture_is_refused_where_the_server_takes_none():
    async with serving("```call f\n{}\n```\n---\nSeen.", images_in_tools=False) as (_, post):
        first = (await post(tools=[FUNCTION])).json()["output"]
        answer = {"type": "function_call_output", "call_id": first[-1]["call_id"], "output": [IMAGE]}
        refused = await post(tools=[FUNCTION], input=[TASK, *first, answer])
        assert error(refused) == (400, "invalid_value", "input[3].output[0]")
        assert (await post(input=[{"role": "user", "content": [IMAGE]}])).status_code == 200


async def test_more_requests_than_a_second_may_have_are_refused_and_counted():
    async with serving(requests_per_second=2) as (server, post):
        answers = [await post() for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[-1].headers["retry-after"] == "1"
        assert 0 < int(answers[-1].headers["retry-after-ms"]) <= 1000
        assert (server.rate.violations, server.rate.most) == (2, 4)


async def test_beginning_that_an_earlier_request_had_was_in_the_cache():
    async with serving() as (_, post):
        long = {"role": "user", "content": "y" * 400}
        usages = [(await post(input=items)).json()["usage"] for items in ([TASK], [TASK, long], [long, TASK])]
        cached = [usage["input_tokens_details"]["cached_tokens"] for usage in usages]
        assert cached == [0, usages[0]["input_tokens"], 0]
        other = (await post(input=[TASK], instructions="Otherwise.")).json()["usage"]
        assert other["input_tokens_details"]["cached_tokens"] == 0


async def test_usage_that_a_script_says_stands():
    said = (
        "turns:\n- say: Hi.\n  usage: {input_tokens: 1000, cached_tokens: 900, output_tokens: 50, reasoning_tokens: 40}"
    )
    async with serving(said, "yaml") as (_, post):
        usage = (await post()).json()["usage"]
    assert usage == {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 40},
        "total_tokens": 1050,
    }


async def test_long_context_is_compacted_and_what_was_before_may_be_dropped():
    script = "```call f\n{}\n```\n---\n```call f\n{}\n```\n---\nexpect: two\nDone."
    compacting = {"context_management": [{"type": "compaction", "compact_threshold": 100}], "tools": [FUNCTION]}
    async with serving(script) as (_, post):
        task = {"role": "user", "content": "z" * 400}
        first = (await post(input=[task], store=False, **compacting)).json()["output"]
        assert [item["type"] for item in first] == ["compaction", "reasoning", "function_call"]
        answer = {"type": "function_call_output", "call_id": first[-1]["call_id"], "output": "one"}
        second = await post(input=[*first, answer], store=False, **compacting)
        output = second.json()["output"]
        assert second.json()["usage"]["input_tokens"] < 100
        assert [item["type"] for item in output] == ["reasoning", "function_call"]
        last = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "two"}
        third = (await post(input=[*first, answer, *output, last], store=False, **compacting)).json()
        assert third["output"][-1]["content"][0]["text"] == "Done."


async def test_items_of_a_script_come_as_they_stand_and_go_on():
    script = """
turns:
  - output:
      - say: First this.
        phase: commentary
      - call: {name: f, arguments: {}, id: call_own}
      - item: {type: web_search_call, id: ws_1, status: completed, action: {type: search, query: x, queries: [x]}}
  - expect: seen
    say: Done.
"""
    async with serving(script, "yaml") as (_, post):
        first = (await post(tools=[FUNCTION])).json()["output"]
        assert [item["type"] for item in first] == ["message", "function_call", "web_search_call"]
        assert first[1]["call_id"] == "call_own"
        assert first[2] == {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x", "queries": ["x"]}}  # fmt: skip
        answer = {"type": "function_call_output", "call_id": "call_own", "output": "seen"}
        last = await post(tools=[FUNCTION], input=[TASK, *first, answer])
        assert last.json()["output"][-1]["content"][0]["text"] == "Done."


async def test_what_is_no_request_of_the_api_is_not_found():
    async with serving() as (server, _):
        headers = {"Authorization": "Bearer k"}
        async with httpx2.AsyncClient(
            base_url=server.base_url, headers=headers, trust_env=False, verify=False
        ) as client:
            answers = [await client.get("/responses"), await client.post("/chat/completions", json={})]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert "POST /v1/chat/completions" in answers[1].json()["error"]["message"]


async def test_no_credential_is_kept_of_what_was_seen():
    async with serving() as (server, post):
        await post()
        assert "Bearer" not in json.dumps([dict(request.headers) for request in server.seen])
        assert (server.seen[0].status, server.seen[0].turn, server.seen[0].input) == (200, 1, (TASK,))


async def test_only_so_many_requests_are_kept_as_are_asked_for():
    async with Emulator(Script.parse("Hi."), kept=2) as server:
        headers = {"Authorization": "Bearer k"}
        async with httpx2.AsyncClient(
            base_url=server.base_url, headers=headers, trust_env=False, verify=False
        ) as client:
            for number in range(3):
                await client.post("/responses", json={"model": f"m{number}", "input": "x"})
    assert [request.body["model"] for request in server.seen] == ["m1", "m2"]
    assert len(server.requests) == 2
