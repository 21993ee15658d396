"""Which items a strict server of the Responses API takes, and how they must belong together.

Flows in: the items of a conversation. Flows out: nothing, or a `Refused` with the API's own words. Decided here: the rules that a loop can
break. Every call is answered exactly once, by its id, in its own kind; reasoning is sent back with what followed it; images are
images, and say their detail.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.ids import reasoning_of
from cellwright.emulator.refusing import refuse
from cellwright.emulator.rules import ServerRules
from cellwright.model.base import Item

OUTPUT_OF: Final = {
    kind: f"{kind}_output"
    for kind in ("function_call", "custom_tool_call", "computer_call", "shell_call", "apply_patch_call")
}
"""Type of a call -> of its answer."""
_CALL_OF: Final = {output: call for call, output in OUTPUT_OF.items()}
_NEEDED: Final = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
    "compaction": ("encrypted_content",),
    "reasoning": ("id",),
}
_DETAILS: Final = ("low", "high", "auto", "original")
_ROLES: Final = ("user", "assistant", "system", "developer")
_MAGIC: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF", b"GIF8")


def kind_of(item: Item) -> JsonValue:
    """Return the type of an item; a message may leave it out."""
    return item.get("type", "message")


def check_items(history: Sequence[Item], rules: ServerRules, *, stores: bool) -> None:
    """Look at every item alone, then at how they belong together.

    Raises:
        Refused: One breaks a rule.
    """
    for index, item in enumerate(history):
        _check_item(item, f"input[{index}]", rules, stores=stores)
    _check_answers(history)
    _check_reasoning(history)
    images = sum(1 for _ in images_of(history))
    if images > rules.max_images:
        refuse(
            f"Too many images: {images}; a request may have {rules.max_images}.", code="too_many_images", param="input"
        )


def images_of(history: Iterable[Item]) -> Iterator[Mapping[str, JsonValue]]:
    """Yield every picture in a history, of messages and of tools."""
    for item in history:
        for name in ("content", "output"):
            parts = item.get(name)
            for part in parts if isinstance(parts, list) else []:
                if isinstance(part, dict) and part.get("type") == "input_image":
                    yield part


def _check_item(item: Item, where: str, rules: ServerRules, *, stores: bool) -> None:
    kind = kind_of(item)
    for name in _NEEDED.get(str(kind), ()):
        _check_word(item, name, where)
    match kind:
        case "message":
            _check_message(item, where, rules)
        case "function_call_output" | "custom_tool_call_output":
            _check_output(item.get("output"), f"{where}.output", rules)
        case "reasoning":
            _check_reasoning_item(item, where, stores=stores)
        case "function_call" | "custom_tool_call":
            if not item["call_id"]:
                refuse(f"Invalid '{where}.call_id': empty string.", code="empty_string", param=f"{where}.call_id")
        case _:
            pass  # the SDK's types say whether there is such an item at all


def _check_reasoning_item(item: Item, where: str, *, stores: bool) -> None:
    if not isinstance(item.get("summary"), list):
        refuse(f"Missing required parameter: '{where}.summary'.", param=f"{where}.summary")
    if not stores and not item.get("encrypted_content"):
        refuse(
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. "
            "Try again with `store` set to true, or remove this item from your input.",
            status=404,
            param="input",
        )


def _check_message(item: Item, where: str, rules: ServerRules) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _ROLES:
        refuse(f"Invalid value: '{role}'.", code="invalid_value", param=f"{where}.role")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        refuse(f"Invalid type for '{where}.content'.", code="invalid_type", param=f"{where}.content")
    legal = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image")
    for index, part in enumerate(content):
        _check_part(part, f"{where}.content[{index}]", legal, rules)


def _check_output(output: JsonValue, where: str, rules: ServerRules) -> None:
    if isinstance(output, str) and output:
        return
    if not isinstance(output, list) or not output:
        refuse(f"Invalid '{where}': expected a non-empty string or array.", code="invalid_type", param=where)
    legal = ("input_text", "input_image") if rules.images_in_tools else ("input_text",)
    for index, part in enumerate(output):
        _check_part(part, f"{where}[{index}]", legal, rules)


def _check_part(part: JsonValue, where: str, legal: Sequence[str], rules: ServerRules) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or kind not in legal:
        supported = ", ".join(f"'{word}'" for word in legal)
        refuse(f"Invalid value: '{kind}'. Supported values are: {supported}.", code="invalid_value", param=where)
    match kind:
        case "input_image":
            if part.get("detail") not in _DETAILS:
                refuse(f"Invalid '{where}.detail'.", code="invalid_value", param=f"{where}.detail")
            _check_image(part.get("image_url"), f"{where}.image_url", rules.max_image_bytes)
        case "refusal":
            _check_word(part, "refusal", where)
        case _:
            _check_word(part, "text", where)


def _check_image(url: JsonValue, where: str, most: int | None) -> None:
    if not isinstance(url, str) or not url.startswith("data:image/"):
        refuse("Expected a base64-encoded data URL with an image MIME type.", code="invalid_image_url", param=where)
    head, _, data = url.partition(",")
    try:
        image = base64.b64decode(data, validate=True) if head.endswith(";base64") else b""
    except binascii.Error:
        refuse("The image data you provided does not represent valid base64.", code="invalid_base64_image", param=where)
    if not image.startswith(_MAGIC):
        refuse(
            "The image data you provided does not represent a valid image.", code="invalid_image_format", param=where
        )
    if most is not None and len(image) > most:
        refuse(f"Image has {len(image)} bytes; one may have {most}.", code="image_file_too_large", param=where)


def _check_word(item: Mapping[str, JsonValue], name: str, where: str) -> None:
    if not isinstance(item.get(name), str):
        refuse(
            f"Missing required parameter: '{where}.{name}'.",
            code="missing_required_parameter",
            param=f"{where}.{name}",
        )


def _check_answers(history: Iterable[Item]) -> None:
    """Every call has one answer, after it, of its own kind; every answer has a call."""
    called, answered = dict[str, str](), set[str]()
    for item in history:
        kind, call_id = str(kind_of(item)), str(item.get("call_id"))
        said = kind.removesuffix("_output").replace("_", " ")
        if kind in OUTPUT_OF:
            if call_id in called:
                refuse(f"Duplicate {said} with call_id {call_id}.", param="input")
            called[call_id] = kind
        elif kind in _CALL_OF:
            if called.get(call_id) != _CALL_OF[kind]:
                refuse(f"No tool call found for {said} output with call_id {call_id}.", param="input")
            if call_id in answered:
                refuse(f"Duplicate tool output for {said} {call_id}.", param="input")
            answered.add(call_id)
    for call_id, kind in called.items():
        if call_id not in answered:
            refuse(f"No tool output found for {kind.replace('_', ' ')} {call_id}.", param="input")


def _check_reasoning(history: Sequence[Item]) -> None:
    """A call or message of ours that came with reasoning is sent back with it."""
    reasoned = {str(item.get("id")) for item in history if kind_of(item) == "reasoning"}
    for item in history:
        item_id = str(item.get("id") or "")
        needed = reasoning_of(item_id)
        if needed is not None and needed not in reasoned:
            refuse(
                f"Item '{item_id}' of type '{kind_of(item)}' was provided without its required 'reasoning' item: "
                f"'{needed}'.",
                param="input",
            )
