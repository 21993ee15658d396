"""A turn of a script, as the response and the stream of events that a real server would make of it.

Flows in: a `ScriptedTurn`, its number, what it answers. Flows out: the response's JSON, and its events in order.
Decided here: ids, which carry the turn's number, so that a history tells how far its conversation has come and the
emulator need remember nothing; and the token counts, estimated as the API's documents say.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.protocol import Conversation
from cellwright.emulator.script import ScriptedTurn
from cellwright.model.base import Item

Event = dict[str, JsonValue]

_TURN: Final = re.compile(r"(?:resp|rs|msg|fc|call)_t(\d+)_")
_DELTA_CHARS: Final = 24
_PATCH: Final = 32
"""Pixels of a side; one patch is one token."""


def turns_played(history: Iterable[Item]) -> int:
    """Return the number of the last scripted turn in a history; 0 when there is none."""
    ids = (str(item.get(name) or "") for item in history for name in ("id", "call_id"))
    return max((int(match[1]) for word in ids if (match := _TURN.match(word))), default=0)


def response_for(turn: ScriptedTurn, number: int, asked: Conversation) -> Event:
    """Return the whole response of one turn."""
    # where only a summary was asked for, the turn's calls were not made: it is still to be played
    key = f"t{number if asked.may_call else number - 1}_{uuid.uuid4().hex[:12]}"
    output = _output(turn, key, asked)
    incomplete: JsonValue = {"reason": turn.reason} if turn.status == "incomplete" else None
    error: JsonValue = {"code": turn.reason or "server_error", "message": "The script says so."}
    return {
        "id": f"resp_{key}",
        "object": "response",
        "created_at": int(time.time()),
        "status": turn.status,
        "error": error if turn.status == "failed" else None,
        "incomplete_details": incomplete,
        "instructions": asked.instructions or None,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto" if asked.may_call else "none",
        "tools": [],
        "usage": _usage(asked, output),
    }


def events_of(response: Event) -> Iterator[Event]:
    """Yield the events of a response, from `created` to its end."""
    output = response["output"]
    opened: Event = {**response, "status": "in_progress", "output": [], "usage": None, "error": None}
    events: list[Event] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
    ]
    for index, item in enumerate(output if isinstance(output, list) else []):
        events.extend(_item_events(item if isinstance(item, dict) else {}, index))
    events.append({"type": f"response.{response['status']}", "response": response})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _output(turn: ScriptedTurn, key: str, asked: Conversation) -> list[JsonValue]:
    sealed = base64.b64encode(f"reasoning of {key}".encode()).decode()
    items: list[JsonValue] = [{"id": f"rs_{key}", "type": "reasoning", "summary": [], "encrypted_content": sealed}]
    calls = turn.calls if asked.may_call else ()
    text = turn.text or ("" if calls or turn.refusal or turn.calls == () else "I can make no further call.")
    content: list[JsonValue] = []
    if text:
        content.append({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
    if turn.refusal:
        content.append({"type": "refusal", "refusal": turn.refusal})
    if content:
        message: Event = {"id": f"msg_{key}_0", "type": "message", "role": "assistant", "content": content}
        phase = turn.phase if calls or not turn.calls else "final_answer"
        items.append({**message, "status": "completed", **({"phase": phase} if phase else {})})
    for index, call in enumerate(calls, 1):
        items.append(
            {
                "id": f"fc_{key}_{index}",
                "type": "function_call",
                "call_id": f"call_{key}_{index}",
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )
    return items


def _item_events(item: Event, index: int) -> Iterator[Event]:
    at: Event = {"output_index": index, "item_id": item.get("id")}
    match item.get("type"):
        case "function_call":
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "arguments": ""}}
            yield from _deltas("response.function_call_arguments", "arguments", str(item["arguments"]), at)
        case "message":
            yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
            content = item["content"]
            for number, part in enumerate(content if isinstance(content, list) else []):
                yield from _part_events(part if isinstance(part, dict) else {}, {**at, "content_index": number})
        case _:
            yield {
                "type": "response.output_item.added",
                "output_index": index,
                "item": {**item, "encrypted_content": ""},
            }
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(part: Event, at: Event) -> Iterator[Event]:
    name = "refusal" if part["type"] == "refusal" else "text"
    more: Event = {} if name == "refusal" else {"logprobs": []}
    kind = "response.refusal" if name == "refusal" else "response.output_text"
    yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
    yield from _deltas(kind, name, str(part[name]), {**at, **more})
    yield {"type": "response.content_part.done", **at, "part": part}


def _deltas(kind: str, name: str, text: str, at: Event) -> Iterator[Event]:
    for start in range(0, len(text), _DELTA_CHARS):
        yield {"type": f"{kind}.delta", **at, "delta": text[start : start + _DELTA_CHARS]}
    yield {"type": f"{kind}.done", **at, name: text}


def _usage(asked: Conversation, output: list[JsonValue]) -> Event:
    tokens_in = len(asked.instructions) // 4 + sum(_tokens(dict(item)) for item in asked.history)
    tokens_out = sum(_tokens(item) for item in output)
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens_out,
    }


def _tokens(value: JsonValue) -> int:
    """Return about how many tokens a value has: four characters each, and an image's patches."""
    match value:
        case {"type": "input_image", "image_url": str() as url}:
            return _patches(url)
        case dict():
            return sum(_tokens(part) for name, part in value.items() if name not in ("id", "call_id", "status"))
        case list():
            return sum(_tokens(part) for part in value)
        case str():
            return (len(value) + 3) // 4
        case _:
            return 0


def _patches(url: str) -> int:
    """Return the patches of a PNG by its header; 1,305 (1440x900) for another image."""
    try:
        head = base64.b64decode(url.partition(",")[2][:32])
        width, height = struct.unpack(">II", head[16:24])
    except (binascii.Error, struct.error):
        return 1305
    return -(-width // _PATCH) * -(-height // _PATCH) if head.startswith(b"\x89PNG") else 1305


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
