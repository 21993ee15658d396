"""A response as the stream of events in which it arrives.

Flows in: a response's JSON. Flows out: its events, in order and numbered. Decided here: into which pieces texts are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

Event = dict[str, JsonValue]

_DELTA_CHARS: Final = 24
_ENDS: Final = ("completed", "failed", "incomplete")
"""Statuses that have an event of their own."""


def events_of(response: Event) -> list[Event]:
    """Return the events of a response, from `created` to its end."""
    output = response["output"]
    opened: Event = {**response, "status": "in_progress", "output": [], "usage": None, "error": None}
    events: list[Event] = [
        {"type": "response.created", "response": opened},
        {"type": "response.in_progress", "response": opened},
    ]
    for index, item in enumerate(output if isinstance(output, list) else []):
        events.extend(_item_events(item if isinstance(item, dict) else {}, index))
    status = response["status"] if response["status"] in _ENDS else "failed"
    events.append({"type": f"response.{status}", "response": response})
    return numbered(events)


def numbered(events: list[Event]) -> list[Event]:
    """Return events with their numbers, from 0."""
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def is_of_arguments(event: Event) -> bool:
    """Return whether an event is a piece of what a call is made with."""
    return event["type"] in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")


def _item_events(item: Event, index: int) -> Iterator[Event]:
    at: Event = {"output_index": index, "item_id": item.get("id")}
    added: Event = {"type": "response.output_item.added", "output_index": index}
    match item.get("type"):
        case "function_call":
            begun: Event = {**item, "arguments": ""}
            yield {**added, "item": {**begun, "status": "in_progress"} if "status" in item else begun}
            yield from _deltas("response.function_call_arguments", "arguments", str(item.get("arguments")), at)
        case "custom_tool_call":
            yield {**added, "item": {**item, "input": ""}}
            yield from _deltas("response.custom_tool_call_input", "input", str(item.get("input")), at)
        case "message":
            yield {**added, "item": {**item, "content": [], "status": "in_progress"}}
            content = item.get("content")
            for number, part in enumerate(content if isinstance(content, list) else []):
                yield from _part_events(part if isinstance(part, dict) else {}, {**at, "content_index": number})
        case "reasoning":
            yield {**added, "item": {**item, "encrypted_content": "", "summary": []}}
            summary = item.get("summary")
            for number, part in enumerate(summary if isinstance(summary, list) else []):
                yield from _summary_events(part if isinstance(part, dict) else {}, {**at, "summary_index": number})
        case _:
            yield {**added, "item": item}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(part: Event, at: Event) -> Iterator[Event]:
    name = "refusal" if part.get("type") == "refusal" else "text"
    more: Event = {} if name == "refusal" else {"logprobs": []}
    kind = "response.refusal" if name == "refusal" else "response.output_text"
    yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
    yield from _deltas(kind, name, str(part.get(name)), {**at, **more})
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(part: Event, at: Event) -> Iterator[Event]:
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
    yield from _deltas("response.reasoning_summary_text", "text", str(part.get("text")), at)
    yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _deltas(kind: str, name: str, text: str, at: Event) -> Iterator[Event]:
    for start in range(0, len(text), _DELTA_CHARS):
        yield {"type": f"{kind}.delta", **at, "delta": text[start : start + _DELTA_CHARS]}
    yield {"type": f"{kind}.done", **at, name: text}
