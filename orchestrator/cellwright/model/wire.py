"""One history, as one server takes it: what a profile lacks is put otherwise on the way out.

Flows in: the loop's history and tools. Flows out: `input` and `tools` of a request. Decided here: which fields of a
model's own items go back to it (those that the API takes as input, by the SDK's types; an item of a kind that the SDK
does not know goes as it came); that an answer to a custom tool is one; where a picture stands; and that reasoning goes
back only to the model that it came from.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from openai.types.responses import ResponseInputItemParam
from pydantic import JsonValue

from cellwright.model.base import Item, arguments_of, item_from
from cellwright.model.pictures import (
    FOLLOWS,
    NOT_TAKEN,
    REFUSED,
    TOO_LARGE,
    TOO_MANY,
    Mark,
    is_picture,
    left_out_of,
    mark_of,
    parts_of,
    pictures_in,
    size_of,
)
from cellwright.model.profile import Profile

Sent = dict[str, JsonValue]

_FREE: Final = "\n\nThe input is the code itself: plain text, no JSON and no fences around it."
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")
_MODELS_OWN: Final = ("reasoning", "message", "function_call", "custom_tool_call")


@dataclass(frozen=True)
class Wire:
    """How one server is spoken to."""

    profile: Profile
    custom_tools: bool = False
    """Whether the model writes code as plain text."""

    def tools(self, offered: Iterable[Item]) -> list[Sent]:
        """Return the tools of a request."""
        return [self._tool(tool) for tool in offered]

    def input(
        self,
        history: Sequence[Item],
        *,
        start: int = 0,
        refused: Container[Mark] = (),
        is_foreign: Callable[[str], bool] = lambda _: False,
    ) -> list[Sent]:
        """Return the items of a request.

        Args:
            history: All of it.
            start: The first item that is sent; the server has those before it.
            refused: Pictures that the server has refused, each by its mark.
            is_foreign: Says of the id of a reasoning item whether another model made it.
        """
        sending = _Sending(self, history, refused, is_foreign)
        for index, item in enumerate(history):
            sending.take(item, is_sent=index >= start)
        return sending.whole()

    def _tool(self, tool: Item) -> Sent:
        if self.custom_tools and _takes_code(tool):
            described = f"{tool.get('description') or ''}{_FREE}"
            return {"type": "custom", "name": tool["name"], "description": described, "format": {"type": "text"}}
        return dict(tool) if self.profile.strict_tools else {**tool, "strict": False}


class _Sending:
    """The items of one request, while they are put together."""

    def __init__(
        self, wire: Wire, history: Sequence[Item], refused: Container[Mark], is_foreign: Callable[[str], bool]
    ) -> None:
        self._profile = wire.profile
        self._is_foreign = is_foreign
        self._refused = refused
        self._too_many = left_out_of(sum(1 for _ in pictures_in(history)), self._profile.max_images)
        self._pictures = 0
        self._sent: list[Sent] = []
        self._following: list[JsonValue] = []
        """Pictures that stand after the answers they belong to."""
        self._custom: set[str] = set()
        """Calls of custom tools, by their ids."""
        self._has_lost_reasoning = False
        """Whether the reasoning that led to the items at hand is not sent; they go without their ids then."""

    def take(self, item: Item, *, is_sent: bool) -> None:
        kind = str(item.get("type") or "message")
        if kind == "custom_tool_call":
            self._custom.add(str(item.get("call_id")))
        if not is_sent:
            self._pictures += sum(1 for _ in pictures_in([item]))
            return
        if kind not in _OUTPUTS:
            self._flush()
        self._sent.extend(self._translated(kind, item))

    def whole(self) -> list[Sent]:
        self._flush()
        return self._sent

    def _translated(self, kind: str, item: Item) -> list[Sent]:
        if kind not in _MODELS_OWN or item.get("role") in ("user", "system", "developer"):
            self._has_lost_reasoning = False
        match kind:
            case "message" if item.get("role") == "assistant":
                return [self._said(item)]
            case "message":
                return [self._with_pictures(item, "content")]
            case "reasoning":
                return self._reasoning(item)
            case "custom_tool_call" if not self._profile.custom_tools:
                code = arguments_of(str(item.get("input") or ""))
                name = item.get("name") or ""
                return [{"type": "function_call", "call_id": item["call_id"], "name": name, "arguments": code}]
            case "function_call_output" | "custom_tool_call_output":
                is_custom = str(item.get("call_id")) in self._custom and self._profile.custom_tools
                typed: Item = {**item, "type": "custom_tool_call_output" if is_custom else "function_call_output"}
                return [self._with_pictures(_clean(typed), "output")]
            case _:
                return [self._without_id(_clean(item))]

    def _reasoning(self, item: Item) -> list[Sent]:
        if self._is_foreign(str(item.get("id") or "")):
            self._has_lost_reasoning = True
            return []
        cleaned = _clean(item)
        if not self._profile.encrypted_reasoning:
            cleaned.pop("encrypted_content", None)
            if not cleaned.get("summary") and not cleaned.get("content"):
                return []  # nothing of it is left that the server could read
        cleaned.setdefault("summary", [])
        return [cleaned]

    def _said(self, item: Item) -> Sent:
        """A message of the model's. One without an id was made up, or its server gives none: it goes in the short form."""
        phase: Sent = {"phase": item["phase"]} if self._profile.phase and item.get("phase") else {}
        if not item.get("id") or self._has_lost_reasoning:
            message = item_from({**item, "type": "message"})
            text = f"{getattr(message, 'text', '')}{getattr(message, 'refusal', None) or ''}"
            content = item.get("content")
            return {
                "type": "message",
                "role": "assistant",
                "content": content if isinstance(content, str) else text,
                **phase,
            }
        return {
            "type": "message",
            "id": item["id"],
            "role": "assistant",
            "status": item.get("status") or "completed",
            "content": [_said_part(part) for part in parts_of(item)],
            **phase,
        }

    def _without_id(self, item: Sent) -> Sent:
        if self._has_lost_reasoning:
            item.pop("id", None)
        return item

    def _with_pictures(self, item: Item, name: str) -> Sent:
        parts = item.get(name)
        if not isinstance(parts, list):
            return dict(item)
        in_answer = name == "output"
        put = [
            self._picture(part, in_answer) if isinstance(part, dict) and is_picture(part) else part for part in parts
        ]
        return {**item, name: put}

    def _picture(self, part: Sent, in_answer: bool) -> Sent:
        url = str(part.get("image_url") or "")
        self._pictures += 1
        if why := self._why_not(url):
            return _text(why)
        shown: Sent = {**part, "detail": part.get("detail") or "auto"}
        if not in_answer or self._profile.tool_images == "native":
            return shown
        if self._profile.tool_images == "none":
            return _text(NOT_TAKEN)
        self._following += [_text(f"Picture {self._pictures}:"), shown]
        return _text(FOLLOWS.format(number=self._pictures))

    def _why_not(self, url: str) -> str | None:
        if mark_of(url) in self._refused:
            return REFUSED
        if self._pictures <= self._too_many:
            return TOO_MANY.format(most=self._profile.max_images)
        most, size = self._profile.max_image_side, size_of(url)
        if most is not None and size is not None and max(size) > most:
            return TOO_LARGE.format(width=size[0], height=size[1], most=most)
        return None

    def _flush(self) -> None:
        if self._following:
            self._sent.append({"type": "message", "role": "user", "content": self._following})
            self._following = []


def _takes_code(tool: Item) -> bool:
    """Return whether code is all that a function takes; any other stays a function."""
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return tool.get("type") == "function" and isinstance(properties, dict) and properties.keys() == {"code"}


def _text(text: str) -> Sent:
    return {"type": "input_text", "text": text}


def _said_part(part: Item) -> Sent:
    if part.get("type") == "refusal":
        return {"type": "refusal", "refusal": part.get("refusal") or ""}
    annotations = part.get("annotations")
    cited = annotations if isinstance(annotations, list) else []
    return {"type": "output_text", "text": part.get("text") or "", "annotations": cited}


def _clean(item: Item) -> Sent:
    """Return an item without what a strict server would refuse: fields that are no input, and those that are null."""
    known = _fields().get(str(item.get("type")))
    return {name: value for name, value in item.items() if value is not None and (known is None or name in known)}


@cache
def _fields() -> dict[str, frozenset[str]]:
    """Return the fields of each kind of item that the API takes as input, by the SDK's own types."""
    found: dict[str, frozenset[str]] = {}
    for kind in typing.get_args(ResponseInputItemParam):
        annotations: dict[str, object] = {}
        for base in reversed((*getattr(kind, "__orig_bases__", ()), kind)):
            annotations |= getattr(base, "__annotations__", {})
        named = re.search(r"Literal\W+(\w+)", str(annotations.get("type")))
        if named:
            found[named[1]] = found.get(named[1], frozenset()) | annotations.keys()
    return found
