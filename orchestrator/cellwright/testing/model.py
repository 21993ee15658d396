"""A model that says what a test tells it to, in the test's own process: no HTTP, no key.

Flows in: responses, or errors, in order. Flows out: those, one for each request; the requests are kept to be looked at.
Decided here: short ways to write a response. For the wire itself there is the emulator.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

from pydantic import JsonValue

from cellwright.errors import ModelError
from cellwright.model.base import Delta, Item, OnDelta, Phase, Request, Response, Usage, item_from

_USAGE = Usage(input_tokens=100, output_tokens=10)
_numbers = itertools.count(1)


class ScriptedModel:
    """Plays responses; raises those that are errors."""

    def __init__(self, turns: Iterable[Response | Exception], *, name: str = "scripted") -> None:
        self.requests: list[Request] = []
        """What it was asked, in order."""
        self.closed = False
        self._turns = iter(turns)
        self._name = name

    def __repr__(self) -> str:
        return f"<ScriptedModel {self._name}: asked {len(self.requests)} times>"

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        """Return what a server would be sent."""
        return {"model": self._name, "tool_choice": "auto" if request.may_call else "none"}

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        """Return the next response, its text and arguments as one delta each before it."""
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise ModelError("The scripted model has no further turn.")
        if isinstance(turn, Exception):
            raise turn
        for call in turn.calls:
            on_delta(Delta("arguments", call.call_id, call.arguments, call.name))
        for message in turn.messages:
            on_delta(Delta("text", str(message.raw.get("id")), message.text))
        return turn

    async def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


def calls(*codes: str, name: str = "exec_py", text: str = "") -> Response:
    """Return a response with a call for each code, and a commentary before them where `text` is given."""
    said = [_message(text, "commentary")] if text else []
    return response(*said, *(call(json.dumps({"code": code}), name=name) for code in codes))


def says(text: str, phase: Phase | None = "final_answer") -> Response:
    """Return a response that is one message."""
    return response(_message(text, phase))


def refuses(text: str) -> Response:
    """Return a response that is one refusal."""
    content: list[JsonValue] = [{"type": "refusal", "refusal": text}]
    return response({"id": _new("msg"), "type": "message", "role": "assistant", "content": content})


def call(arguments: str, *, name: str = "exec_py", call_id: str | None = None) -> Item:
    """Return a call whose arguments stand as they are given, well formed or not."""
    call_id = call_id if call_id is not None else _new("call")
    return {"id": _new("fc"), "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def response(*items: Item, status: str = "completed", reason: str | None = None) -> Response:
    """Return a response of these items."""
    raw: list[JsonValue] = [dict(item) for item in items]
    typed = tuple(item_from(item) for item in items)
    return Response(_new("resp"), status, typed, _USAGE, reason, {"status": status, "output": raw})


def _message(text: str, phase: Phase | None) -> Item:
    content: list[JsonValue] = [{"type": "output_text", "text": text, "annotations": []}]
    phased: Item = {"phase": phase} if phase else {}
    return {"id": _new("msg"), "type": "message", "role": "assistant", "content": content, **phased}


def _new(kind: str) -> str:
    return f"{kind}_{next(_numbers)}"
