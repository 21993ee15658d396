"""What a strict server of the Responses API refuses; so that the emulator is no kinder than the real one.

Flows in: the body of a request, and earlier responses that were stored. Flows out: the `Conversation` that it makes; or a
`Refused` with the status, code and words of the API's errors. Decided here: which rules hold. The ones that a
loop can break: every call is answered exactly once, by its id, with legal items; reasoning is sent back with what
followed it; images are images, and say their detail.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Never

from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import JsonValue

from cellwright.model.base import Item

MAX_IMAGES: Final = 1500
"""Images that one request may have."""
_KNOWN: Final = frozenset(ResponseCreateParamsBase.__annotations__) | {"stream"}
_DETAILS: Final = ("low", "high", "auto", "original")
_ROLES: Final = ("user", "assistant", "system", "developer")
_MAGIC: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF", b"GIF8")


class Refused(Exception):
    """The server doesn't take the request."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self._code = code
        self._param = param

    def body(self) -> dict[str, JsonValue]:
        """Return the body of the error, as the API has it."""
        kind = {401: "invalid_request_error", 429: "rate_limit_error"}.get(
            self.status, "server_error" if self.status >= 500 else "invalid_request_error"
        )
        return {"error": {"message": str(self), "type": kind, "param": self._param, "code": self._code}}


@dataclass(frozen=True)
class Stored:
    """A response that was kept, with all that led to it."""

    history: tuple[Item, ...]


@dataclass(frozen=True)
class Conversation:
    """What a request that is taken says."""

    model: str
    history: tuple[Item, ...]
    """Every item, oldest first, those of stored responses in it."""
    tools: tuple[str, ...]
    """Names of the functions that may be called."""
    may_call: bool
    instructions: str
    stores: bool
    streams: bool

    @property
    def answers(self) -> tuple[Item, ...]:
        """The answers after the last call: what the model is about to see for the first time."""
        last_call = max(
            (index for index, item in enumerate(self.history) if _kind(item) == "function_call"), default=-1
        )
        return tuple(item for item in self.history[last_call + 1 :] if _kind(item) == "function_call_output")


def conversation(body: JsonValue, stored: Mapping[str, Stored]) -> Conversation:
    """Return what the request says.

    Raises:
        Refused: It breaks a rule.
    """
    if not isinstance(body, dict):
        _refuse("The body is not a JSON object.")
    for name in body:
        if name not in _KNOWN:
            _refuse(f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        _refuse("Missing required parameter: 'model'.", code="missing_required_parameter", param="model")
    before = _before(body, stored)
    history = (*before, *_input(body.get("input"), is_first=not before))
    stores = body.get("store") is not False
    for index, item in enumerate(history):
        _check_item(item, f"input[{index}]", stores=stores)
    _check_answers(history)
    _check_reasoning(history)
    return Conversation(
        model=model,
        history=history,
        tools=_tools(body.get("tools")),
        may_call=body.get("tool_choice") != "none",
        instructions=str(body.get("instructions") or ""),
        stores=stores,
        streams=body.get("stream") is True,
    )


def _before(body: dict[str, JsonValue], stored: Mapping[str, Stored]) -> tuple[Item, ...]:
    previous = body.get("previous_response_id")
    if previous is None:
        return ()
    if not isinstance(previous, str) or previous not in stored:
        _refuse(
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return stored[previous].history


def _input(value: JsonValue, *, is_first: bool) -> list[Item]:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if value is None and not is_first:
        return []
    if not isinstance(value, list) or (not value and is_first):
        _refuse("Invalid 'input': expected a string or a non-empty array.", param="input")
    items = [item for item in value if isinstance(item, dict)]
    if len(items) != len(value):
        _refuse("Invalid 'input': every item must be an object.", param="input")
    return list[Item](items)


def _tools(value: JsonValue) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        _refuse("Invalid 'tools': expected an array.", param="tools")
    return tuple(_tool_name(tool, f"tools[{index}]") for index, tool in enumerate(value))


def _tool_name(tool: JsonValue, where: str) -> str:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        _refuse(f"Invalid '{where}': only function tools are emulated.", param=where)
    name, parameters = tool.get("name"), tool.get("parameters")
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum() or len(name) > 64:
        _refuse(f"Invalid '{where}.name'.", param=f"{where}.name")
    if tool.get("strict") is not False:
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        if not isinstance(parameters, dict) or not isinstance(properties, dict):
            _refuse(f"Invalid schema for function '{name}'.", code="invalid_function_parameters", param=where)
        if parameters.get("additionalProperties") is not False or parameters.get("required") != list(properties):
            _refuse(
                f"Invalid schema for function '{name}': a strict one has 'additionalProperties': false and every "
                "property in 'required'.",
                code="invalid_function_parameters",
                param=where,
            )
    return name


def _check_item(item: Item, where: str, *, stores: bool) -> None:
    match _kind(item):
        case "message":
            _check_message(item, where)
        case "function_call":
            for name in ("call_id", "name", "arguments"):
                _check_word(item, name, where)
        case "function_call_output":
            _check_word(item, "call_id", where)
            _check_output(item.get("output"), f"{where}.output")
        case "reasoning":
            _check_word(item, "id", where)
            if not isinstance(item.get("summary"), list):
                _refuse(f"Missing required parameter: '{where}.summary'.", param=f"{where}.summary")
            if not stores and not item.get("encrypted_content"):
                _refuse(
                    f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. "
                    "Try again with `store` set to true, or remove this item from your input.",
                    status=404,
                    param="input",
                )
        case kind:
            _refuse(f"Invalid value: '{kind}'.", code="invalid_value", param=where)


def _check_message(item: Item, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        _refuse(f"Invalid value: '{role}'.", code="invalid_value", param=f"{where}.role")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        _refuse(f"Invalid type for '{where}.content'.", code="invalid_type", param=f"{where}.content")
    legal = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image")
    for index, part in enumerate(content):
        _check_part(part, f"{where}.content[{index}]", legal)


def _check_output(output: JsonValue, where: str) -> None:
    if isinstance(output, str) and output:
        return
    if not isinstance(output, list) or not output:
        _refuse(f"Invalid '{where}': expected a non-empty string or array.", code="invalid_type", param=where)
    for index, part in enumerate(output):
        _check_part(part, f"{where}[{index}]", ("input_text", "input_image"))


def _check_part(part: JsonValue, where: str, legal: Sequence[str]) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in legal:
        supported = ", ".join(f"'{word}'" for word in legal)
        _refuse(f"Invalid value: '{kind}'. Supported values are: {supported}.", code="invalid_value", param=where)
    match kind:
        case "input_image":
            if part.get("detail") not in _DETAILS:
                _refuse(f"Invalid '{where}.detail'.", code="invalid_value", param=f"{where}.detail")
            _check_image(part.get("image_url"), f"{where}.image_url")
        case "refusal":
            _check_word(part, "refusal", where)
        case _:
            _check_word(part, "text", where)


def _check_image(url: JsonValue, where: str) -> None:
    if not isinstance(url, str) or not url.startswith("data:image/"):
        _refuse("Expected a base64-encoded data URL with an image MIME type.", code="invalid_image_url", param=where)
    head, _, data = url.partition(",")
    try:
        start = base64.b64decode(data, validate=True)[:16] if head.endswith(";base64") else b""
    except binascii.Error:
        _refuse(
            "The image data you provided does not represent valid base64.", code="invalid_base64_image", param=where
        )
    if not start.startswith(_MAGIC):
        _refuse(
            "The image data you provided does not represent a valid image.", code="invalid_image_format", param=where
        )


def _check_word(item: Mapping[str, JsonValue], name: str, where: str) -> None:
    if not isinstance(item.get(name), str):
        _refuse(
            f"Missing required parameter: '{where}.{name}'.",
            code="missing_required_parameter",
            param=f"{where}.{name}",
        )


def _check_answers(history: Iterable[Item]) -> None:
    """Every call has one answer, after it; every answer has a call."""
    called, answered = dict[str, str](), set[str]()
    images = 0
    for item in history:
        call_id = str(item.get("call_id"))
        if _kind(item) == "function_call":
            called[call_id] = str(item.get("name"))
        elif _kind(item) == "function_call_output":
            if call_id not in called:
                _refuse(f"No tool call found for function call output with call_id {call_id}.", param="input")
            if call_id in answered:
                _refuse(f"Duplicate tool output for function call {call_id}.", param="input")
            answered.add(call_id)
            output = item.get("output")
            images += sum(_is_image(part) for part in output) if isinstance(output, list) else 0
    for call_id in called:
        if call_id not in answered:
            _refuse(f"No tool output found for function call {call_id}.", param="input")
    if images > MAX_IMAGES:
        _refuse(f"Too many images: {images}; a request may have {MAX_IMAGES}.", code="too_many_images", param="input")


def _check_reasoning(history: Sequence[Item]) -> None:
    """A call or message of ours that came with reasoning is sent back with it."""
    reasoned = {str(item.get("id")).partition("_")[2] for item in history if _kind(item) == "reasoning"}
    for item in history:
        item_id = str(item.get("id") or "")
        turn = item_id.partition("_")[2].rpartition("_")[0]
        if item_id.startswith(("fc_t", "msg_t")) and turn not in reasoned:
            _refuse(
                f"Item '{item_id}' of type '{_kind(item)}' was provided without its required 'reasoning' item: "
                f"'rs_{turn}'.",
                param="input",
            )


def _is_image(part: JsonValue) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


def _kind(item: Item) -> JsonValue:
    return item.get("type", "message")


def _refuse(message: str, *, status: int = 400, code: str | None = None, param: str | None = None) -> Never:
    raise Refused(message, status=status, code=code, param=param)
