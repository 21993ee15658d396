"""A turn of a script as the response that a real server would make of it.

Flows in: a `ScriptedTurn`, and the request that it answers. Flows out: the response's JSON. Decided here: which items it has, in which
order, and their ids.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.protocol import Conversation
from cellwright.emulator.script import ScriptedCall, ScriptedTurn
from cellwright.emulator.usage import usage_of
from cellwright.model.base import Item

Json = dict[str, JsonValue]

PREFIXES: Final = {
    "reasoning": "rs",
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "compaction": "cmp",
}
"""Type of an item -> how its id begins."""
CALLS: Final = ("function_call", "custom_tool_call")


def has_reasoning(turn: ScriptedTurn) -> bool:
    """Return whether there is reasoning in a turn, with which its other items must be sent back."""
    return turn.output is None or any(item.get("type") == "reasoning" for item in turn.output)


def response_for(turn: ScriptedTurn, key: str, asked: Conversation, cached: int) -> Json:
    """Return the whole response of one turn.

    Args:
        turn: What it says.
        key: What its ids have in common.
        asked: What it answers.
        cached: Tokens of that which were in the cache.
    """
    if turn.recorded is not None:
        return dict(turn.recorded)
    output = output_of(turn, key, asked)
    usage = usage_of(asked.head, asked.rendered, output, cached, turn.usage)
    tokens = usage["input_tokens"]
    if asked.compacts_from is not None and isinstance(tokens, int) and tokens > asked.compacts_from:
        output = [{"id": f"cmp_{key}", "type": "compaction", "encrypted_content": _sealed("context", key)}, *output]
    error: JsonValue = {"code": turn.reason or "server_error", "message": "The script says so."}
    return {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": int(time.time()),
        "status": turn.status,
        "error": error if turn.status == "failed" else None,
        "incomplete_details": {"reason": turn.reason} if turn.status == "incomplete" else None,
        "instructions": asked.instructions or None,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": asked.is_parallel,
        "previous_response_id": asked.previous,
        "store": asked.stores,
        "tool_choice": "auto" if asked.may_call else "none",
        "tools": [],
        "usage": usage,
    }


def output_of(turn: ScriptedTurn, key: str, asked: Conversation) -> list[JsonValue]:
    """Return the items of one turn."""
    if turn.output is not None:
        return [_with_ids(dict(item), key, index) for index, item in enumerate(turn.output)]
    items: list[JsonValue] = [reasoning(key, turn.reasoning)]
    calls = turn.calls if asked.may_call else ()
    text = turn.text or ("" if calls or turn.refusal or turn.calls == () else "I can make no further call.")
    content: list[JsonValue] = []
    if text:
        content.append({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    if turn.refusal:
        content.append({"type": "refusal", "refusal": turn.refusal})
    if content:
        phase = turn.phase if calls or not turn.calls else "final_answer"
        items.append(message(key, content, phase))
    items.extend(call_item(_as_offered(call, asked), key, index) for index, call in enumerate(calls, 1))
    return items


def _as_offered(call: ScriptedCall, asked: Conversation) -> ScriptedCall:
    """Return a call as one of the tool that is offered under its name: where that is a custom one, the code is all of it."""
    if call.is_custom or not any(tool.is_custom and tool.name == call.name for tool in asked.tools):
        return call
    try:
        said = json.loads(call.arguments)
    except ValueError:
        return call
    code = said.get("code") if isinstance(said, dict) else None
    return replace(call, arguments=code, is_custom=True) if isinstance(code, str) else call


def reasoning(key: str, summary: str = "") -> Json:
    """Return the reasoning of a response."""
    parts: list[JsonValue] = [{"type": "summary_text", "text": summary}] if summary else []
    return {
        "id": f"rs_{key}",
        "type": "reasoning",
        "summary": parts,
        "encrypted_content": _sealed("reasoning", key),
    }


def message(key: str, content: list[JsonValue], phase: str | None) -> Json:
    """Return a message of these parts."""
    said: Json = {"id": f"msg_{key}_0", "type": "message", "role": "assistant", "content": content}
    return {**said, "status": "completed", **({"phase": phase} if phase else {})}


def call_item(call: ScriptedCall, key: str, index: int) -> Json:
    """Return a call."""
    call_id = f"call_{key}_{index}" if call.call_id is None else call.call_id
    if call.is_custom:
        custom: Json = {"id": f"ctc_{key}_{index}", "type": "custom_tool_call", "call_id": call_id}
        return {**custom, "name": call.name, "input": call.arguments}
    item: Json = {"id": f"fc_{key}_{index}", "type": "function_call", "call_id": call_id}
    return {**item, "name": call.name, "arguments": call.arguments, "status": "completed"}


def _with_ids(item: Json, key: str, index: int) -> Json:
    """Return an item of a script with what it was not given; what it was given as null is left out."""
    kind = str(item.get("type"))
    filled: Json = {"id": f"{PREFIXES.get(kind, 'item')}_{key}_{index}", **item}
    if kind == "reasoning":
        filled = {**reasoning(key), **item}
    elif kind in CALLS:
        filled = {"id": filled["id"], "call_id": f"call_{key}_{index}", **item}
    if kind in ("message", "function_call"):
        filled = {**filled, "status": item.get("status", "completed")}
    return {name: value for name, value in filled.items() if value is not None}


def _sealed(what: str, key: str) -> str:
    return base64.b64encode(f"{what} of {key}".encode()).decode()


def texts_of(answers: Iterable[Item]) -> str:
    """Return the text in answers, joined by newlines."""
    return "\n".join(_text(item.get("output")) for item in answers)


def has_image(answers: Iterable[Item]) -> bool:
    """Return whether a picture is among the answers."""
    return any('"input_image"' in json.dumps(item.get("output")) for item in answers)


def _text(output: JsonValue) -> str:
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)
