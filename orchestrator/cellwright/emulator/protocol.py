"""What a strict server of the Responses API refuses; so that the emulator is no kinder than the real one.

Flows in: the body of a request, and earlier responses that were stored. Flows out: the `Conversation` that it makes; or a
`Refused` with the status, code and words of the API's errors. Decided here: which rules hold for a request as a whole; those of its
items are in `items.py`, and what neither has is held against the SDK's own types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import JsonValue

from cellwright.emulator.items import OUTPUT_OF, check_items, images_of, kind_of
from cellwright.emulator.refusing import Refused, refuse
from cellwright.emulator.rules import ServerRules
from cellwright.emulator.schemas import strict_problem
from cellwright.emulator.sdk_types import mismatch
from cellwright.emulator.usage import tokens_of
from cellwright.model.base import Item

__all__ = ["Conversation", "Refused", "Stored", "Tool", "conversation"]

_KNOWN: Final = frozenset(ResponseCreateParamsBase.__annotations__) | {"stream"}
_MIN_OUTPUT_TOKENS: Final = 16


@dataclass(frozen=True)
class Stored:
    """A response that was kept, with all that led to it."""

    history: tuple[Item, ...]
    turns: int = 0
    """How far the script had come with it."""


@dataclass(frozen=True)
class Tool:
    """Something that may be called."""

    name: str
    is_custom: bool = False


@dataclass(frozen=True)
class Conversation:
    """What a request that is taken says."""

    model: str
    history: tuple[Item, ...]
    """Every item, oldest first, those of stored responses in it."""
    tools: tuple[Tool, ...]
    may_call: bool
    instructions: str
    stores: bool
    streams: bool
    head: str = ""
    """What stands before the items in the model's context: instructions and tools."""
    previous: str | None = None
    """Id of the response that it goes on from; absent: it says everything itself."""
    turns_before: int = 0
    """How far the script had come with that."""
    compacts_from: int | None = None
    """Tokens from which its context is compacted; absent: it never is."""
    is_parallel: bool = True
    most_output: int | None = None
    """Tokens that the response may have; absent: any number."""

    @property
    def answers(self) -> tuple[Item, ...]:
        """The answers after the last call: what the model is about to see for the first time."""
        last_call = max((index for index, item in enumerate(self.history) if kind_of(item) in OUTPUT_OF), default=-1)
        return tuple(item for item in self.history[last_call + 1 :] if kind_of(item) in OUTPUT_OF.values())

    @property
    def rendered(self) -> tuple[Item, ...]:
        """What the model sees: from the newest compaction on."""
        newest = max((index for index, item in enumerate(self.history) if kind_of(item) == "compaction"), default=0)
        return self.history[newest:]

    @property
    def has_tool_images(self) -> bool:
        """Whether there is a picture in a tool's output."""
        return any(images_of(item for item in self.history if kind_of(item) in OUTPUT_OF.values()))

    @property
    def tokens(self) -> int:
        """About how many it takes."""
        return tokens_of(self.head) + sum(tokens_of(dict(item)) for item in self.rendered)


def conversation(body: JsonValue, stored: Mapping[str, Stored], rules: ServerRules | None = None) -> Conversation:
    """Return what the request says.

    Raises:
        Refused: It breaks a rule.
    """
    rules = rules or ServerRules()
    if not isinstance(body, dict):
        refuse("The body is not a JSON object.")
    for name in body:
        if name not in _KNOWN:
            refuse(f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        refuse("Missing required parameter: 'model'.", code="missing_required_parameter", param="model")
    before = _before(body, stored, rules)
    history = (*before.history, *_input(body.get("input"), is_first=not before.history))
    check_items(history, rules, stores=body.get("store") is not False)
    tools = _tools(body.get("tools"), rules)
    _check_settings(body, history, rules)
    _check_types(body)
    previous = body.get("previous_response_id")
    asked = Conversation(
        model=model,
        history=history,
        tools=tools,
        may_call=body.get("tool_choice") != "none",
        instructions=str(body.get("instructions") or ""),
        stores=body.get("store") is not False and rules.chaining,
        streams=body.get("stream") is True,
        head=f"{body.get('instructions') or ''}{json.dumps(body['tools']) if body.get('tools') else ''}",
        previous=previous if isinstance(previous, str) else None,
        turns_before=before.turns,
        compacts_from=_compacts_from(body.get("context_management")),
        is_parallel=body.get("parallel_tool_calls") is not False,
        most_output=most if isinstance(most := body.get("max_output_tokens"), int) else None,
    )
    if rules.context_tokens is not None and asked.tokens > rules.context_tokens:
        refuse(
            "Your input exceeds the context window of this model. Please adjust your input and try again. "
            f"(about {asked.tokens} tokens, and {rules.context_tokens} fit)",
            code="context_length_exceeded",
            param="input",
        )
    return asked


def _before(body: dict[str, JsonValue], stored: Mapping[str, Stored], rules: ServerRules) -> Stored:
    previous = body.get("previous_response_id")
    if previous is None:
        return Stored(())
    if body.get("conversation") is not None:
        refuse(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.",
            code="mutually_exclusive_parameters",
            param="previous_response_id",
        )
    if not rules.chaining:
        refuse(
            "Unsupported parameter: 'previous_response_id'.",
            code="unsupported_parameter",
            param="previous_response_id",
        )
    if not isinstance(previous, str) or previous not in stored:
        refuse(
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return stored[previous]


def _input(value: JsonValue, *, is_first: bool) -> list[Item]:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if value is None and not is_first:
        return []
    if not isinstance(value, list) or (not value and is_first):
        refuse("Invalid 'input': expected a string or a non-empty array.", param="input")
    items = [item for item in value if isinstance(item, dict)]
    if len(items) != len(value):
        refuse("Invalid 'input': every item must be an object.", param="input")
    return list[Item](items)


def _tools(value: JsonValue, rules: ServerRules) -> tuple[Tool, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        refuse("Invalid 'tools': expected an array.", param="tools")
    tools = tuple(_tool(tool, f"tools[{index}]", rules) for index, tool in enumerate(value))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            refuse(f"Duplicate tool name: '{name}'.", code="invalid_value", param="tools")
    return tools


def _tool(tool: JsonValue, where: str, rules: ServerRules) -> Tool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if not isinstance(tool, dict) or kind not in ("function", "custom"):
        refuse(f"Invalid '{where}': only function tools and custom tools are emulated.", param=where)
    if kind == "custom" and not rules.custom_tools:
        refuse("Invalid value: 'custom'. Supported values are: 'function'.", code="invalid_value", param=where)
    name = tool.get("name")
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum() or len(name) > 64:
        refuse(f"Invalid '{where}.name'.", param=f"{where}.name")
    if kind == "function" and tool.get("strict") is not False:
        problem = strict_problem(tool.get("parameters"))
        if problem is not None:
            refuse(f"Invalid schema for function '{name}': {problem}", code="invalid_function_parameters", param=where)
    return Tool(name, is_custom=kind == "custom")


def _check_settings(body: dict[str, JsonValue], history: tuple[Item, ...], rules: ServerRules) -> None:
    tokens = body.get("max_output_tokens")
    if tokens is not None and not rules.output_limit:
        refuse("Unsupported parameter: 'max_output_tokens'.", code="unsupported_parameter", param="max_output_tokens")
    if isinstance(tokens, int) and tokens < _MIN_OUTPUT_TOKENS:
        refuse(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {_MIN_OUTPUT_TOKENS}, but "
            f"got {tokens} instead.",
            code="integer_below_min_value",
            param="max_output_tokens",
        )
    text = body.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    match form:
        case {"type": "json_schema", "name": name, "schema": schema, "strict": True}:
            problem = strict_problem(schema)
            if problem is not None:
                refuse(
                    f"Invalid schema for response_format '{name}': {problem}",
                    code="invalid_json_schema",
                    param="text.format.schema",
                )
        case {"type": "json_object"}:
            if "json" not in json.dumps([dict(item) for item in history]).lower():
                refuse(
                    "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
                    "'json_object'.",
                    param="input",
                )
        case _:
            pass


def _compacts_from(value: JsonValue) -> int | None:
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, dict) and entry.get("type") == "compaction":
            threshold = entry.get("compact_threshold")
            return threshold if isinstance(threshold, int) else None
    return None


def _check_types(body: dict[str, JsonValue]) -> None:
    """Refuse what no client of the SDK could have written with its types."""
    found = mismatch(body)
    if found is None:
        return
    if found.is_unknown:
        refuse(f"Unknown parameter: '{found.field}'.", code="unknown_parameter", param=found.field)
    if found.is_missing:
        refuse(f"Missing required parameter: '{found.field}'.", code="missing_required_parameter", param=found.field)
    refuse(f"Invalid value for '{found.field}': {found.why}.", code="invalid_value", param=found.field)
