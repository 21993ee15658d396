"""A response on its way: pieces are forwarded as they come, and what it is in the end.

Flows in: events of a stream, or a response in one. Flows out: deltas; a `Response`. Decided here: which event is its end; that a response which is still queued or in
progress when there is no more of it broke off; that reasoning is taken where it is complete; and that code which comes as plain text looks like the
arguments of any other call.
"""

from __future__ import annotations

import json
from typing import Any, Final, Literal, cast

from openai.types.responses import Response as ApiResponse
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import JsonValue

from cellwright.model.base import Delta, Item, OnDelta, Response, Usage, item_from
from cellwright.model.retrying import BrokenOff

ENDS: Final = ("completed", "incomplete", "failed", "cancelled")
"""Statuses after which nothing more comes."""

_DELTAS: Final[dict[str, Literal["text", "refusal", "reasoning"]]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_BEGIN: Final = '{"code": "'


class Arriving:
    """One response, while it comes."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._names: dict[str, str] = {}
        self._begun: set[str] = set()
        """Custom calls of which a piece has come."""
        self._items: dict[int, Item] = {}
        self._last: ApiResponse | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its end has come: it is there then, whatever becomes of the connection."""
        return self._last is not None

    def take(self, event: ResponseStreamEvent) -> None:
        """Take one event.

        Raises:
            BrokenOff: The server says that nothing more comes.
        """
        match event.type:
            case "response.output_item.added":
                if event.item.type in ("function_call", "custom_tool_call"):
                    self._names[event.item.id or ""] = cast("Any", event.item).name
            case "response.function_call_arguments.delta":
                name = self._names.get(event.item_id, "")
                self._on_delta(Delta("arguments", event.item_id, event.delta, name))
            case "response.custom_tool_call_input.delta":
                self._code(event.item_id, event.delta)
            case "response.custom_tool_call_input.done":
                if event.item_id in self._begun:
                    self._on_delta(Delta("arguments", event.item_id, '"}', self._names.get(event.item_id, "")))
            case "response.output_item.done":  # only here is encrypted reasoning complete
                self._items[event.output_index] = as_json(event.item)
            case "error":
                raise BrokenOff(event.message or "an error without words", event.code)
            case kind if kind in _DELTAS:
                piece = cast("Any", event)  # the four of _DELTAS have these fields
                self._on_delta(Delta(_DELTAS[kind], piece.item_id, piece.delta))
            case kind if str(kind).removeprefix("response.") in ENDS:
                self._last = cast("Any", event).response  # `cancelled` has no class in the SDK

    def whole(self) -> Response:
        """Return the response.

        Raises:
            BrokenOff: Its end has not come.
        """
        if self._last is None:
            raise BrokenOff("the stream ended before the response did")
        return response_from(self._last, [self._items[index] for index in sorted(self._items)])

    def _code(self, item_id: str, piece: str) -> None:
        """Put a piece of plain code as JSON, so that a view need know one kind of call only."""
        head = "" if item_id in self._begun else _BEGIN
        self._begun.add(item_id)
        escaped = json.dumps(piece, ensure_ascii=False)[1:-1]
        self._on_delta(Delta("arguments", item_id, f"{head}{escaped}", self._names.get(item_id, "")))


def response_from(came: ApiResponse, items: list[Item] | None = None) -> Response:
    """Return a response that has ended; `items`: those that came one by one, more complete than its own list.

    Raises:
        BrokenOff: It has not.
    """
    raw = as_json(came)
    status = came.status or "completed"
    if status not in ENDS:
        raise BrokenOff(f"the response was still {str(status)[:40]} when there was no more of it")
    if not items:
        said = raw.get("output")
        items = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return Response(
        id=str(came.id or ""),
        status=status,
        items=tuple(item_from(item) for item in items),
        usage=_usage(came),
        reason=_reason(came),
        raw={**raw, "output": [dict(item) for item in items]},
    )


def as_json(value: ApiResponse | ResponseOutputItem) -> dict[str, JsonValue]:
    """Return what the server sent, fields unknown to the SDK in it and absent ones not."""
    return cast("dict[str, JsonValue]", value.to_dict(mode="json", warnings=False))


def _reason(response: ApiResponse) -> str | None:
    if response.error is not None:
        return f"{response.error.code}: {response.error.message}"
    if response.incomplete_details is not None and response.incomplete_details.reason is not None:
        return str(response.incomplete_details.reason)
    return None


def _usage(response: ApiResponse) -> Usage:
    """Return the tokens; a server that counts none has none. Some leave out the details that the SDK promises."""
    usage = response.usage
    if usage is None:
        return Usage()
    cached = getattr(usage.input_tokens_details, "cached_tokens", None)
    reasoning = getattr(usage.output_tokens_details, "reasoning_tokens", None)
    return Usage(usage.input_tokens or 0, usage.output_tokens or 0, cached or 0, reasoning or 0)
