"""What is sent for a response, to the byte: whole or streamed, complete or not.

Flows in: a response's JSON, and what is to go wrong with it. Flows out: a `Delivery`, which sends itself. Decided here: how each fault of body, connection and stream looks on the wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from pydantic import JsonValue
from starlette.types import Receive, Send

from cellwright.emulator.faults import Cut, OddBody, OddEvents, Slow
from cellwright.emulator.streaming import Event, events_of, is_of_arguments, numbered

_STREAM: Final = "text/event-stream; charset=utf-8"
_JSON: Final = "application/json"


@dataclass(frozen=True)
class Delivery:
    """An answer to one request."""

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    """Bytes that the head promises; absent: it promises none."""
    pace_s: float = 0.0
    """Between two pieces."""
    end: Literal["whole", "lost", "closed"] = "whole"
    """As it should be; the connection is lost after the pieces; it is closed before any byte."""
    silent_s: float = 0.0
    """Before the connection is lost."""

    async def send(self, receive: Receive, send: Send) -> None:
        """Send it."""
        if self.end == "closed":
            _lose(send)
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self._head()})
        for index, piece in enumerate(self.pieces):
            if index and self.pace_s:
                await asyncio.sleep(self.pace_s)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if self.end == "whole":
            await send({"type": "http.response.body", "body": b""})
            return
        if not self.pieces:
            await send({"type": "http.response.body", "body": b"", "more_body": True})  # now the head goes out
        await _until_gone(receive, self.silent_s)
        _lose(send)

    def _head(self) -> list[tuple[bytes, bytes]]:
        said = {"content-type": self.content_type, **self.headers}
        if self.length is not None:
            said["content-length"] = str(self.length)
        return [(name.lower().encode(), value.encode()) for name, value in said.items()]


def json_delivery(body: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None) -> Delivery:
    """Return an answer that is JSON."""
    return _of_bytes(json.dumps(body).encode(), status=status, headers=headers)


def delivery_of(
    response: Event,
    *,
    streams: bool,
    effect: Cut | OddBody | Slow | OddEvents | None,
    seconds: float | None = None,
    pace_s: float = 0.0,
    breaks: bool = False,
) -> Delivery:
    """Return how a response is sent.

    Args:
        response: Its JSON.
        streams: Whether as events.
        effect: What goes wrong with it; absent: nothing.
        seconds: How long, where the effect takes time; absent: as long as it usually does.
        pace_s: Between two events.
        breaks: Whether the stream ends in the middle as if it were whole.
    """
    if isinstance(effect, OddBody) and effect.text is not None:
        return _of_bytes(effect.text.encode(), status=effect.status, content_type=effect.content_type)
    if not streams:
        return _whole(response, effect, seconds)
    events = events_of(response)
    if isinstance(effect, OddEvents):
        return _odd(events, effect)
    plain = Delivery(tuple(map(_line, events)), content_type=_STREAM, pace_s=pace_s)
    if breaks:
        plain = replace(plain, pieces=plain.pieces[: len(events) // 2])
    if isinstance(effect, Cut):
        kept = plain.pieces[: _cut_at(effect.at, events)]
        return replace(plain, pieces=kept, end=_end(effect.at, is_abrupt=effect.is_abrupt))
    return _slowed(plain, effect, seconds) if isinstance(effect, Slow) else plain


def _slowed(plain: Delivery, effect: Slow, seconds: float | None) -> Delivery:
    seconds = effect.seconds if seconds is None else seconds
    if effect.is_endless:
        return replace(plain, pieces=plain.pieces[:2], end="lost", silent_s=seconds)
    return replace(plain, pace_s=seconds)


def _whole(response: Event, effect: Cut | OddBody | Slow | OddEvents | None, seconds: float | None) -> Delivery:
    data = json.dumps(response).encode()
    match effect:
        case OddBody():
            return _of_bytes(data, content_type=effect.content_type)
        case Cut(at=at, is_abrupt=is_abrupt):
            half = b"" if at in ("start", "nothing") else data[: len(data) // 2]
            end = _end(at, is_abrupt=is_abrupt)
            return Delivery((half,) if half else (), length=len(data) if end == "lost" else len(half), end=end)
        case Slow():
            return Delivery(length=len(data), end="lost", silent_s=effect.seconds if seconds is None else seconds)
        case _:
            return _of_bytes(data)


def _odd(events: list[Event], effect: OddEvents) -> Delivery:
    lines = [_line(event) for event in events]
    match effect.how:
        case "error":
            said: Event = {"code": "server_error", "message": "The server had an error.", "param": None}
            kept = numbered([*events[: len(events) // 2], {"type": "error", **said}])
            lines = [_line(event) for event in kept]
        case "unknown":
            odd: list[Event] = [
                {"type": "response.hologram.delta", "output_index": 0, "delta": "?"},
                {"type": "keepalive"},
            ]
            mixed = [part for event in events[:-1] for part in (event, *odd)]
            lines = [b": keep-alive\n\n", *(_line(event) for event in numbered([*mixed, events[-1]]))]
        case "only_completed":
            lines = lines[-1:]
        case "done_marker":
            lines.append(b"data: [DONE]\n\n")
    return Delivery(tuple(lines), content_type=_STREAM)


def _cut_at(at: str, events: list[Event]) -> int:
    """Return how many events come before the cut."""
    match at:
        case "nothing" | "start":
            return 0
        case "arguments":
            first = next((index for index, event in enumerate(events) if is_of_arguments(event)), len(events) // 2)
            return first + 1
        case "end":
            return len(events) - 1
        case _:
            return len(events)


def _end(at: str, *, is_abrupt: bool) -> Literal["whole", "lost", "closed"]:
    if at == "nothing":
        return "closed"
    return "lost" if is_abrupt else "whole"


def _of_bytes(
    data: bytes, *, status: int = 200, content_type: str = _JSON, headers: Mapping[str, str] | None = None
) -> Delivery:
    return Delivery((data,), status, content_type, headers or {}, len(data))


def _line(event: Event) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


async def _until_gone(receive: Receive, seconds: float) -> None:
    """Wait until the client has hung up, or so long."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    try:
        await asyncio.wait_for(gone(), seconds)
    except TimeoutError:
        return


def _lose(send: Send) -> None:
    """Close the connection under the answer. uvicorn's own `send` is a method of what knows the connection."""
    cycle: Any = getattr(send, "__self__", None)
    cycle.transport.abort()
