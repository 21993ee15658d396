"""Each fault on the wire, as a client sees it that knows nothing but HTTP and JSON; and that it passes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio

from cellwright.emulator.faults import FAULTS, PlannedFault, fault_named
from cellwright.emulator.script import Script, ScriptedCall, ScriptedTurn
from cellwright.emulator.server import Emulator
from cellwright.model.tools import tools_for

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = [dict(tool) for tool in tools_for(["python"], width=1440, height=1000, page_height=900)]
TASK = {"type": "message", "role": "user", "content": "Do it."}
CODE = json.dumps({"code": "log(1)"})
SCRIPT = Script(
    (ScriptedTurn(calls=(ScriptedCall("exec_py", CODE),)), ScriptedTurn(calls=(ScriptedCall("exec_py", CODE),)))
)

# what comes: an HTTP status and the error's code; or how the body ends; or what is in the output, and the response's status
AS_IT_SHOULD = ["reasoning", "function_call"]
REFUSED: dict[str, tuple[int, str | None]] = {
    "rate_limited": (429, "rate_limit_exceeded"),
    "rate_limited_ms": (429, "rate_limit_exceeded"),
    "rate_limited_silent": (429, "rate_limit_exceeded"),
    "quota_spent": (429, "insufficient_quota"),
    "server_error": (500, None),
    "bad_gateway": (502, None),
    "unavailable": (503, None),
    "gateway_timeout": (504, None),
    "overloaded": (529, None),
    "request_timeout": (408, None),
    "unauthorized": (401, "invalid_api_key"),
    "model_not_found": (404, "model_not_found"),
    "bad_request": (400, None),
    "context_too_long": (400, "context_length_exceeded"),
    "images_refused": (400, "invalid_value"),
    "custom_tools_refused": (400, "invalid_value"),
    "response_forgotten": (400, "previous_response_not_found"),
}
NO_RESPONSE = {"not_json", "empty_body", "html_ok", "html_bad_gateway"}
LOST = {
    "connection_closed",
    "cut_at_start",
    "cut_in_arguments",
    "cut_before_completed",
    "cut_after_completed",
    "stalled",
}
SAID: dict[str, tuple[str, list[str]]] = {
    "wrong_content_type": ("completed", AS_IT_SHOULD),
    "slow_tokens": ("completed", AS_IT_SHOULD),
    "unknown_events": ("completed", AS_IT_SHOULD),
    "only_completed": ("completed", AS_IT_SHOULD),
    "done_marker": ("completed", AS_IT_SHOULD),
    "response_failed": ("failed", []),
    "failed_rate_limited": ("failed", []),
    "response_cancelled": ("cancelled", []),
    "never_finished": ("in_progress", []),
    "out_of_tokens": ("incomplete", AS_IT_SHOULD),
    "content_filtered": ("incomplete", ["reasoning"]),
    "no_usage": ("completed", AS_IT_SHOULD),
    "usage_without_details": ("completed", AS_IT_SHOULD),
    "malformed_arguments": ("completed", AS_IT_SHOULD),
    "arguments_not_object": ("completed", AS_IT_SHOULD),
    "no_code": ("completed", AS_IT_SHOULD),
    "extra_argument": ("completed", AS_IT_SHOULD),
    "unknown_tool": ("completed", AS_IT_SHOULD),
    "one_bad_call": ("completed", [*AS_IT_SHOULD, "function_call"]),
    "empty_call_id": ("completed", AS_IT_SHOULD),
    "duplicate_call_ids": ("completed", [*AS_IT_SHOULD, "function_call"]),
    "reused_call_id": ("completed", AS_IT_SHOULD),
    "foreign_call": ("completed", [*AS_IT_SHOULD, "computer_call"]),
    "commentary_only": ("completed", ["reasoning", "message"]),
    "reasoning_only": ("completed", ["reasoning"]),
    "empty_output": ("completed", []),
    "refused": ("completed", ["reasoning", "message"]),
}
BROKEN = {"ends_early", "error_event"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Emulator]:
    async with Emulator(SCRIPT) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def client(server: Emulator) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": "Bearer k"}
    async with httpx2.AsyncClient(base_url=server.base_url, headers=headers, trust_env=False, verify=False) as one:
        yield one


def ways(fault: str) -> list[bool]:
    """Return whether it is streamed, for each way in which the fault can happen."""
    return {"both": [True, False], "streamed": [True], "whole": [False]}[fault_named(fault).applies]


CASES = [pytest.param(fault.name, way, id=f"{fault.name}-{'streamed' if way else 'whole'}") for fault in FAULTS for way in ways(fault.name)]  # fmt: skip


async def asked_with(client: httpx2.AsyncClient, fault: str, *, streams: bool) -> dict[str, object]:
    """Return the body of a request that the fault can happen to: the second turn's, and whatever else it needs."""
    body = {"model": "m", "tools": TOOLS, "stream": streams, "input": [TASK]}
    first = (await client.post("/responses", json={**body, "stream": False})).json()
    call = first["output"][-1]
    answer = {"type": "function_call_output", "call_id": call["call_id"], "output": "1"}
    match fault:
        case "response_forgotten":
            return {**body, "previous_response_id": first["id"], "input": [answer]}
        case "custom_tools_refused":
            body["tools"] = [*TOOLS, {"type": "custom", "name": "plain"}]
        case "images_refused":
            url = "data:image/png;base64,iVBORw0KGgo="
            answer["output"] = [{"type": "input_image", "image_url": url, "detail": "auto"}]
    return {**body, "input": [TASK, *first["output"], answer]}


def response_in(answer: httpx2.Response, *, streams: bool) -> dict | None:
    """Return the response in a body; None when there is none that is whole."""
    if not streams:
        return answer.json()
    events = [
        json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: {")
    ]
    return next((event["response"] for event in events[::-1] if event["type"] in ENDS), None)


ENDS = ("response.completed", "response.failed", "response.incomplete")


@pytest.mark.parametrize(("fault", "streams"), CASES)
async def test_fault_is_what_it_says_and_passes(
    server: Emulator, client: httpx2.AsyncClient, fault: str, streams: bool
):
    seconds = {"stalled": 0.01, "slow_tokens": 0.001}.get(fault)
    server.play(SCRIPT.with_faults([PlannedFault(fault, 2, 1, seconds)]))
    body = await asked_with(client, fault, streams=streams)
    if fault in LOST:
        with pytest.raises(httpx2.TransportError):
            await client.post("/responses", json=body)
    else:
        answer = await client.post("/responses", json=body)
        if fault in REFUSED:
            status, code = REFUSED[fault]
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        elif fault in NO_RESPONSE:
            with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
                answer.json()
        elif fault in BROKEN:
            if streams:
                assert response_in(answer, streams=True) is None
            else:
                with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
                    answer.json()
        else:
            response = response_in(answer, streams=streams)
            assert response is not None
            assert (response["status"], [item["type"] for item in response["output"]]) == SAID[fault]
    assert server.seen[-1].fault == fault
    if fault == "response_forgotten":
        return  # it stays forgotten
    after = response_in(await client.post("/responses", json=body), streams=streams)
    assert after is not None
    assert [item["type"] for item in after["output"]] == AS_IT_SHOULD
    assert after["output"][-1]["arguments"] == CODE
    assert (server.seen[-1].fault, server.seen[-1].turn) == (None, 2)


async def test_every_fault_is_tried_here():
    assert {fault.name for fault in FAULTS} == {*REFUSED, *NO_RESPONSE, *LOST, *SAID, *BROKEN}


HEADERS = {
    "rate_limited": {"retry-after": "1"},
    "rate_limited_ms": {"retry-after-ms": "20"},
    "rate_limited_silent": {},
}


@pytest.mark.parametrize("fault", HEADERS)
async def test_rate_limit_says_how_long_to_wait_or_not(server: Emulator, client: httpx2.AsyncClient, fault: str):
    server.play(SCRIPT.with_faults([PlannedFault(fault)]))
    answer = await client.post("/responses", json={"model": "m", "tools": TOOLS, "input": "Do it."})
    assert {name: value for name, value in answer.headers.items() if name.startswith("retry")} == HEADERS[fault]


async def test_storm_ends_after_as_many_as_it_was_asked_for(server: Emulator, client: httpx2.AsyncClient):
    server.play(SCRIPT.with_faults([PlannedFault.parse("rate_limitedx3"), PlannedFault.parse("overloaded")]))
    body = {"model": "m", "tools": TOOLS, "input": "Do it."}
    statuses = [(await client.post("/responses", json=body)).status_code for _ in range(5)]
    assert statuses == [429, 429, 429, 529, 200]


async def test_fault_that_always_happens_never_passes(server: Emulator, client: httpx2.AsyncClient):
    server.play(SCRIPT.with_faults([PlannedFault.parse("commentary_only@*x*")]))
    history: list[object] = [TASK]
    for _ in range(5):
        answer = await client.post("/responses", json={"model": "m", "tools": TOOLS, "input": history})
        history += answer.json()["output"]
        assert server.seen[-1].turn == 1
    assert {request.fault for request in server.seen} == {"commentary_only"}


async def test_faults_of_two_conversations_are_counted_apart(server: Emulator, client: httpx2.AsyncClient):
    server.play(SCRIPT.with_faults([PlannedFault.parse("server_error@2")]))
    bodies = [await asked_with(client, "server_error", streams=False) for _ in range(2)]
    statuses = [(await client.post("/responses", json=body)).status_code for body in (*bodies, *bodies)]
    assert statuses == [500, 500, 200, 200]


async def test_fault_that_cannot_happen_to_a_request_is_left_out(server: Emulator, client: httpx2.AsyncClient):
    plans = ["reused_call_id", "response_forgotten", "images_refused", "error_event", "custom_tools_refused"]
    server.play(SCRIPT.with_faults([PlannedFault.parse(plan) for plan in plans]))
    answer = await client.post("/responses", json={"model": "m", "tools": TOOLS, "input": "Do it."})
    assert answer.json()["output"][-1]["arguments"] == CODE
    assert server.seen[-1].fault is None


async def test_reused_call_id_is_that_of_the_call_before(server: Emulator, client: httpx2.AsyncClient):
    server.play(SCRIPT.with_faults([PlannedFault.parse("reused_call_id@2")]))
    body = await asked_with(client, "reused_call_id", streams=False)
    before = body["input"][-1]["call_id"]
    assert (await client.post("/responses", json=body)).json()["output"][-1]["call_id"] == before
