"""A response on its way: pieces are forwarded as they come, and what it is in the end.

Flows in: events of a stream, or a response in one. Flows out: deltas; a `Response`. Decided here: which event is its
end; that a response which is still queued or in progress when there is no more of it broke off, as does one that cannot
be read; that half a character, which no file and no request can hold, is a question mark; that reasoning is taken where
it is complete; and that code which comes as plain text looks like the arguments of any other call.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Literal, cast

import openai
from openai.types.responses import Response as ApiResponse
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from pydantic import JsonValue

from cellwright.model.base import Delta, Item, OnDelta, Response, item_from, usage_from
from cellwright.model.retrying import BrokenOff

PASSING: Final = ("server_error", "rate_limit_exceeded")
"""Codes of failed responses that are asked for once more: nothing of them can be gone on with."""
UNREADABLE: Final = (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError)
"""What the SDK raises, and what is raised here, at what a server made up: the SDK checks nothing of it."""
ENDS: Final = ("completed", "incomplete", "failed", "cancelled")
"""Statuses after which nothing more comes."""

_DELTAS: Final[dict[str, Literal["text", "refusal", "reasoning"]]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_BEGIN: Final = '{"code": "'
_END: Final = '"}'
_REASON_CHARS: Final = 800


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
            BrokenOff: The server says that nothing more comes, or what it sends cannot be read.
        """
        try:
            delta = self._read(event)
        except UNREADABLE as error:
            raise BrokenOff(f"it sent an event that cannot be read ({str(error)[:200]})") from error
        if delta is not None and delta.text:
            self._on_delta(delta)

    def _read(self, event: ResponseStreamEvent) -> Delta | None:
        match event.type:
            case "response.output_item.added":
                if event.item.type in ("function_call", "custom_tool_call"):
                    self._names[_word(event.item.id)] = _word(cast("Any", event.item).name)
            case "response.function_call_arguments.delta":
                return self._arguments(_word(event.item_id), _word(event.delta))
            case "response.custom_tool_call_input.delta":
                return self._code(_word(event.item_id), _word(event.delta))
            case "response.custom_tool_call_input.done":
                return self._arguments(event.item_id, _END) if event.item_id in self._begun else None
            case "response.output_item.done":  # only here is encrypted reasoning complete
                self._items[int(event.output_index)] = as_json(event.item)
            case "error":
                raise BrokenOff(_word(event.message) or "an error without words", _word(event.code) or None)
            case kind if kind in _DELTAS:
                piece = cast("Any", event)  # the four of _DELTAS have these fields
                return Delta(_DELTAS[kind], _word(piece.item_id), _word(piece.delta))
            case kind if str(kind).removeprefix("response.") in ENDS:
                came = cast("Any", event).response
                # `cancelled` has no class in the SDK, so that its response was left as it came
                self._last = ApiResponse.construct(**came) if isinstance(came, dict) else came
            case _:
                pass
        return None

    def whole(self) -> Response:
        """Return the response.

        Raises:
            BrokenOff: Its end has not come.
        """
        if self._last is None:
            raise BrokenOff("the stream ended before the response did")
        return response_from(self._last, [self._items[index] for index in sorted(self._items)])

    def _code(self, item_id: str, piece: str) -> Delta:
        """Put a piece of plain code as JSON, so that a view need know one kind of call only."""
        head = "" if item_id in self._begun else _BEGIN
        self._begun.add(item_id)
        return self._arguments(item_id, f"{head}{json.dumps(piece, ensure_ascii=False)[1:-1]}")

    def _arguments(self, item_id: str, piece: str) -> Delta:
        return Delta("arguments", item_id, piece, self._names.get(item_id, ""))


async def stream_from(
    client: openai.AsyncOpenAI, body: Mapping[str, JsonValue]
) -> openai.AsyncStream[ResponseStreamEvent]:
    """Ask, and return the stream that is the answer. Raises what the SDK raises."""
    return await client.post(
        "/responses",
        cast_to=ApiResponse,
        body=body,
        stream=True,
        stream_cls=openai.AsyncStream[ResponseStreamEvent],
    )


async def events_of(stream: openai.AsyncStream[ResponseStreamEvent]) -> AsyncGenerator[ResponseStreamEvent]:
    """Yield the events of a stream.

    Raises:
        BrokenOff: One cannot be read at all.
        openai.OpenAIError: As the SDK raises them.
    """
    iterator = aiter(stream)
    while True:
        try:
            event = await anext(iterator)
        except StopAsyncIteration:
            return
        except UNREADABLE as error:  # no JSON, or JSON of another shape
            raise BrokenOff(f"it sent what is no event ({str(error)[:200]})") from error
        yield event


def response_from(came: ApiResponse, items: list[Item] | None = None) -> Response:
    """Return a response that has ended; `items`: those that came one by one, more complete than its own list.

    Raises:
        BrokenOff: It has not, cannot be read, or is none by a fault of the server's that may pass.
    """
    if not isinstance(came, ApiResponse):
        raise BrokenOff("it answered with something that is no response")
    try:
        return _read_from(came, items)
    except UNREADABLE as error:
        raise BrokenOff(f"it answered with what cannot be read ({str(error)[:200]})") from error


def _read_from(came: ApiResponse, items: list[Item] | None) -> Response:
    raw = as_json(came)
    status = raw.get("status") or "completed"
    if not isinstance(status, str) or status not in ENDS:
        raise BrokenOff(f"the response was still {str(status)[:40]} when there was no more of it")
    error = raw.get("error")
    if status == "failed" and isinstance(error, dict) and error.get("code") in PASSING:
        raise BrokenOff(f"the response failed ({_reason(raw)})", _word(error["code"]))
    if not items:
        said = raw.get("output")
        items = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return Response(
        id=_word(raw.get("id")),
        status=status,
        items=tuple(item_from(item) for item in items),
        usage=usage_from(raw),
        reason=_reason(raw),
        raw={**raw, "output": [dict(item) for item in items]},
    )


def as_json(value: ApiResponse | ResponseOutputItem) -> dict[str, JsonValue]:
    """Return what the server sent, fields unknown to the SDK in it and absent ones not."""
    return cast(
        "dict[str, JsonValue]", _whole_characters(cast("JsonValue", value.to_dict(mode="json", warnings=False)))
    )


def _whole_characters(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _word(value)
        case dict():
            return {_word(name): _whole_characters(part) for name, part in value.items()}
        case list():
            return [_whole_characters(part) for part in value]
        case _:
            return value


def _reason(raw: Item) -> str | None:
    error, incomplete = raw.get("error"), raw.get("incomplete_details")
    if isinstance(error, dict):
        return f"{error.get('code')}: {error.get('message')}"[:_REASON_CHARS]
    reason = incomplete.get("reason") if isinstance(incomplete, dict) else None
    return None if reason is None else str(reason)[:_REASON_CHARS]


def _word(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
