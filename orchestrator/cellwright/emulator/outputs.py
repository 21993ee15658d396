"""Faults in what a response says: its items, its status, its usage.

Flows in: a response as it should be. Flows out: the faulty one; or None where the fault cannot happen to it. Decided here: how each
fault of this kind comes about. A call of a faulty response is the turn's own one where it has one, so that whoever executes what
must not be executed does it twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.playing import CALLS, Json, message, reasoning
from cellwright.emulator.protocol import Conversation

_MADE_UP: Final = json.dumps({"code": "'a call that a fault made up'"})


def faulty(name: str, response: Json, key: str, asked: Conversation) -> Json | None:
    """Return a response with this fault; None when it cannot have it: no function is offered, no earlier call is there.

    Args:
        name: Of a fault whose effect is an `OddOutput`.
        response: What would be answered.
        key: What its ids have in common.
        asked: What it answers.
    """
    if name in _ENDS:
        return {**response, **_ENDS[name](response, key)}
    made = _of_calls(response, key, asked)
    if made is None:
        return None
    thought, calls = made
    output = _CALLS[name](calls, key, asked)
    return None if output is None else {**response, "output": [*thought, *output]}


def faulty_names() -> frozenset[str]:
    """Return the names of all faults that are brought about here."""
    return frozenset(_ENDS) | frozenset(_CALLS)


def _of_calls(response: Json, key: str, asked: Conversation) -> tuple[list[JsonValue], list[Json]] | None:
    """Return the reasoning of a response and its calls, or one that is made up; None when there is nothing to call."""
    output = response["output"]
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    thought: list[JsonValue] = [item for item in items if item.get("type") == "reasoning"]
    calls = [item for item in items if item.get("type") in CALLS]
    functions = [tool.name for tool in asked.tools if not tool.is_custom]
    if not calls and functions:
        calls = [_call(key, functions[0], _MADE_UP)]
    if not calls and asked.tools:
        custom: Json = {"type": "custom_tool_call", "id": f"ctc_{key}_1", "call_id": f"call_{key}_1"}
        calls = [{**custom, "name": asked.tools[0].name, "input": "'a call that a fault made up'"}]
    return (thought, calls) if calls else None


def _call(key: str, name: str, arguments: str, index: int = 1) -> Json:
    item: Json = {"id": f"fc_{key}_{index}", "type": "function_call", "call_id": f"call_{key}_{index}"}
    return {**item, "name": name, "arguments": arguments, "status": "completed"}


def _with_arguments(change: Callable[[str], str]) -> Callable[[list[Json], str, Conversation], list[JsonValue] | None]:
    def changed(calls: list[Json], _key: str, _asked: Conversation) -> list[JsonValue] | None:
        if calls[-1]["type"] != "function_call":
            return None  # what a custom tool is called with is a text, and cannot be malformed
        return [*calls[:-1], {**calls[-1], "arguments": change(str(calls[-1]["arguments"]))}]

    return changed


def _extra(arguments: str) -> str:
    try:
        said = json.loads(arguments)
    except ValueError:
        said = {}
    return json.dumps({**(said if isinstance(said, dict) else {}), "why": "because"})


def _one_bad(calls: list[Json], key: str, asked: Conversation) -> list[JsonValue] | None:
    functions = [tool.name for tool in asked.tools if not tool.is_custom]
    return [*calls, _call(key, functions[0], '{"code": ', len(calls) + 1)] if functions else None


def _reused(calls: list[Json], _key: str, asked: Conversation) -> list[JsonValue] | None:
    earlier = [item.get("call_id") for item in asked.history if item.get("type") in CALLS]
    return [*calls[:-1], {**calls[-1], "call_id": earlier[-1]}] if earlier else None


def _duplicate(calls: list[Json], _key: str, _asked: Conversation) -> list[JsonValue]:
    again = {**calls[-1], "id": f"{calls[-1].get('id')}_again"}
    return [*calls, again]


def _foreign(calls: list[Json], key: str, _asked: Conversation) -> list[JsonValue]:
    screenshot: list[JsonValue] = [{"type": "screenshot"}]
    foreign: Json = {"id": f"cu_{key}", "type": "computer_call", "call_id": f"call_{key}_99", "actions": screenshot}
    return [*calls, {**foreign, "pending_safety_checks": [], "status": "completed"}]


_CALLS: Final[Mapping[str, Callable[[list[Json], str, Conversation], list[JsonValue] | None]]] = {
    "malformed_arguments": _with_arguments(lambda text: text[:-1]),
    "arguments_not_object": _with_arguments(lambda text: json.dumps([text])),
    "no_code": _with_arguments(lambda _: "{}"),
    "extra_argument": _with_arguments(_extra),
    "unknown_tool": lambda calls, *_: [*calls[:-1], {**calls[-1], "name": "no_such_tool"}],
    "one_bad_call": _one_bad,
    "empty_call_id": lambda calls, *_: [*calls[:-1], {**calls[-1], "call_id": ""}],
    "duplicate_call_ids": _duplicate,
    "reused_call_id": _reused,
    "foreign_call": _foreign,
}


def within_limit(response: Json, key: str, most: int | None) -> Json:
    """Return a response that has no more than so many tokens: a longer one is cut off there, its last call half written."""
    usage = response.get("usage")
    tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
    if most is None or not isinstance(usage, dict) or not isinstance(tokens, int) or tokens <= most:
        return response
    tokens_in, details = usage.get("input_tokens"), usage.get("output_tokens_details")
    thought = details.get("reasoning_tokens") if isinstance(details, dict) else None
    said: Json = {
        **usage,
        "output_tokens": most,
        "output_tokens_details": {"reasoning_tokens": min(thought, most) if isinstance(thought, int) else 0},
        "total_tokens": most + (tokens_in if isinstance(tokens_in, int) else 0),
    }
    return {**response, **_half_written(response, key), "usage": said}


def _says(key: str, part: Json, phase: str | None) -> list[JsonValue]:
    return [reasoning(key), message(key, [part], phase)]


def _text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _failed(code: str, said: str) -> Json:
    return {"status": "failed", "error": {"code": code, "message": said}, "output": []}


def _half_written(response: Json, key: str) -> Json:
    output = response["output"]
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    calls = [item for item in items if item.get("type") == "function_call"]
    cut: Json = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if not calls:
        return {**cut, "output": _says(key, _text("I have"), None)}
    half = str(calls[-1]["arguments"])
    last: Json = {**calls[-1], "arguments": half[: len(half) // 2], "status": "incomplete"}
    return {**cut, "output": [*(item for item in items if item is not calls[-1]), last]}


def _totals_only(response: Json, _key: str) -> Json:
    usage = response.get("usage")
    said = usage if isinstance(usage, dict) else {}
    return {"usage": {name: value for name, value in said.items() if not name.endswith("_details")}}


_ENDS: Final[Mapping[str, Callable[[Json, str], Json]]] = {
    "response_failed": lambda *_: _failed("server_error", "The server had an error while processing your request."),
    "failed_rate_limited": lambda *_: _failed("rate_limit_exceeded", "Rate limit reached for tokens."),
    "response_cancelled": lambda *_: {"status": "cancelled", "output": []},
    "never_finished": lambda *_: {"status": "in_progress", "output": [], "usage": None},
    "out_of_tokens": _half_written,
    "content_filtered": lambda _, key: {
        "status": "incomplete",
        "incomplete_details": {"reason": "content_filter"},
        "output": [reasoning(key)],
    },
    "no_usage": lambda *_: {"usage": None},
    "usage_without_details": _totals_only,
    "commentary_only": lambda _, key: {"output": _says(key, _text("I am still at it."), "commentary")},
    "reasoning_only": lambda _, key: {"output": [reasoning(key)]},
    "empty_output": lambda *_: {"output": []},
    "refused": lambda _, key: {"output": _says(key, {"type": "refusal", "refusal": "I will not do that."}, None)},
}
