"""What a model is to the loop: a Protocol, and the values that go in and come out of it.

Flows in: a `Request`, the whole history in it. Flows out: a `Response` of typed items, each with the JSON it came as.
Decided here: what the loop can tell apart (a call, a message, anything else), and that the history is sent whole with
every request: it works with every server of the Responses API, leaves nothing stored with any of them, and keeps the
run ours to resume and fork. Words of the API (`call_id`, `arguments`, `phase`) are kept at this edge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from pydantic import JsonValue

DEFAULT_MODEL: Final = "gpt-6-astra"

Item: TypeAlias = Mapping[str, JsonValue]
"""One item of the history, as the API has it."""

_NEARLY: Final = 0.9
"""Of its limit, what a response that was cut off there has at least: servers count it by themselves."""
_MOST_TOKENS: Final = 2**53
"""No response has more; a server that says so cannot count."""

Phase = Literal["commentary", "final_answer"]

OutputLimit: TypeAlias = Callable[[str], int | None]
"""By the name of the model that is asked: tokens that its response may have, reasoning among them; None: any number."""


@dataclass(frozen=True)
class Request:
    """What the model is asked with."""

    instructions: str
    """Sent with every request; the API doesn't carry them over."""
    history: tuple[Item, ...]
    """Everything so far, oldest first: the task, the model's items as they came, our answers."""
    tools: tuple[Item, ...]
    """The tools that it may call."""
    may_call: bool = True
    """False for the last turn, which only sums up. The tools are sent all the same: without them the server's cached
    prefix would be lost (`tools_changed`)."""
    authors: Mapping[str, str] = field(default_factory=dict)
    """Which model made a reasoning item, by the item's id, where the run was taken up again: it is not sent to another one."""
    most_output: OutputLimit | None = field(default=None, compare=False, repr=False)
    """How long the response may be; absent: as long as the model likes."""


@dataclass(frozen=True)
class Call:
    """The model asks for a tool."""

    call_id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; not checked yet. Of a custom tool: its text, as `{"code": ...}`."""
    raw: Item = field(repr=False)
    """The item as it came."""
    type: Literal["call"] = "call"


@dataclass(frozen=True)
class Message:
    """The model says something."""

    text: str
    """Empty when there is only a refusal."""
    phase: Phase | None
    """Absent from models that know no phases."""
    refusal: str | None
    """What it says instead of doing it; absent when it doesn't refuse."""
    raw: Item = field(repr=False)
    type: Literal["message"] = "message"


@dataclass(frozen=True)
class OtherItem:
    """Reasoning, compaction, or what is not known here; kept and sent back as it came."""

    kind: str
    """Its `type` in the API."""
    raw: Item = field(repr=False)
    type: Literal["other"] = "other"


ResponseItem: TypeAlias = Call | Message | OtherItem


@dataclass(frozen=True)
class Usage:
    """Tokens of one response, or of a whole run."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those that were in the server's cache."""
    reasoning_tokens: int = 0
    """Of the output tokens, those that were reasoning."""
    cache_write_tokens: int = 0
    """Of the input tokens, those that the server wrote into its cache, which may cost more."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True)
class Response:
    """What came back, whole."""

    id: str
    status: str
    """`completed`, or why there is nothing to go on with: `incomplete`, `failed`, `cancelled`, ..."""
    items: tuple[ResponseItem, ...]
    """In order."""
    usage: Usage
    reason: str | None = None
    """Why it isn't completed, in the server's words; absent when it is."""
    raw: JsonValue = field(default=None, repr=False)
    """The response as it came, for the journal."""
    waited_ms: int = 0
    """What was waited before it was asked for: for this server's turn, and between tries. Not what the tries took."""
    most_output: int | None = None
    """Of the request's limit, what was sent with it; absent: none was, or a smaller one of the user's."""

    @property
    def cut_off_at(self) -> int | None:
        """After so many tokens it was cut off by the request's limit; None: it was not. Some servers call such a one `completed`."""
        most, used = self.most_output, self.usage.output_tokens
        if self.reason == "max_output_tokens":  # by another limit, a smaller one of the model's, it has clearly less
            return most if most is None or not used or used >= _NEARLY * most else None
        return most if self.status == "completed" and used == most else None

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls in it, in order."""
        return tuple(item for item in self.items if isinstance(item, Call))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in it, in order."""
        return tuple(item for item in self.items if isinstance(item, Message))


@dataclass(frozen=True)
class Delta:
    """A piece of a response that is still arriving, for live views only."""

    kind: Literal["arguments", "text", "refusal", "reasoning"]
    item_id: str
    """Which item it belongs to."""
    text: str
    name: str = ""
    """The tool's name, where `kind` is `arguments`."""


@dataclass(frozen=True)
class Retried:
    """There was no answer, or none that holds, and the same is asked again. Nothing was executed because of it."""

    reason: str
    """What happened, what is done about it, and what is waited first, as a sentence; never a credential."""


@dataclass(frozen=True)
class AskedOtherwise:
    """Something else is sent than `parameters` told: to another model, or the whole history after all."""

    model: str
    """Name of the model that is asked now."""
    parameters: dict[str, JsonValue]
    """What is sent to it besides the history."""
    reason: str
    """Why, as a sentence."""


Heard: TypeAlias = Delta | Retried | AskedOtherwise
"""What is heard of a response before it is there."""

OnDelta = Callable[[Heard], None]
"""Called as pieces arrive, in the event loop; it must not block."""


class Model(Protocol):
    """Something that answers requests: a server, or a script."""

    @property
    def name(self) -> str:
        """The model's name, as the run records it."""

    def parameters(self, request: Request) -> dict[str, JsonValue]:
        """Return everything that `respond` sends besides the history; never a credential."""

    async def respond(self, request: Request, on_delta: OnDelta) -> Response:
        """Ask, and return the whole response.

        Raises:
            ModelError: There is none. Nothing was executed because of it; the same request may be made again.
        """

    async def close(self) -> None:
        """Let go of connections; safe to call twice."""


def item_from(raw: Item) -> ResponseItem:
    """Return an item of a response, typed. What is malformed stays readable: absent strings are empty."""
    match raw.get("type"):
        case "function_call":
            return Call(_word(raw, "call_id"), _word(raw, "name"), _word(raw, "arguments"), raw)
        case "custom_tool_call":
            return Call(_word(raw, "call_id"), _word(raw, "name"), arguments_of(_word(raw, "input")), raw)
        case "message":
            return _message(raw)
        case kind:
            return OtherItem(str(kind), raw)


def as_offered(items: Iterable[ResponseItem], *, custom_tools: bool) -> tuple[ResponseItem, ...]:
    """Return items of which a call of a custom tool is a call only where such tools were offered; else it is of a tool that was not."""
    return tuple(
        OtherItem("custom_tool_call", item.raw)
        if isinstance(item, Call) and item.raw.get("type") == "custom_tool_call" and not custom_tools
        else item
        for item in items
    )


def usage_from(response: JsonValue) -> Usage:
    """Return the tokens that a response says it used; what is no count is none. Some servers leave out what the API promises."""
    said = response.get("usage") if isinstance(response, dict) else None
    counts: Item = said if isinstance(said, dict) else {}
    put_in, put_out = counts.get("input_tokens_details"), counts.get("output_tokens_details")
    return Usage(
        _count(counts, "input_tokens"),
        _count(counts, "output_tokens"),
        _count(put_in, "cached_tokens"),
        _count(put_out, "reasoning_tokens"),
        _count(put_in, "cache_write_tokens"),
    )


def arguments_of(code: str) -> str:
    """Return what a model that was free to write plain code would have written as arguments."""
    return json.dumps({"code": code}, ensure_ascii=False)


def _message(raw: Item) -> Message:
    content = raw.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    text = "".join(_word(part, "text") for part in parts if part.get("type") == "output_text")
    refusals = [_word(part, "refusal") for part in parts if part.get("type") == "refusal"]
    phase: Phase | None = None
    if raw.get("phase") == "commentary":
        phase = "commentary"
    elif raw.get("phase") == "final_answer":
        phase = "final_answer"
    return Message(text, phase, "\n".join(refusals) if refusals else None, raw)


def _word(raw: Item, name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def _count(counts: JsonValue | Item, name: str) -> int:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else 0
