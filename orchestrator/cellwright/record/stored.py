"""Outputs as the journal keeps them: pictures and long texts go into blobs, the record names them by hash.

Flows in: `Output` values from the wire. Flows out: `StoredOutput` values and the bytes that they name; and back.
Decided here: what stands in the record itself, what in a blob, and how a value of unknown origin becomes JSON
that can always be written.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, assert_never

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, SerializerFunctionWrapHandler
from pydantic.functional_serializers import model_serializer

from cellwright_kernel.wire import Image, MediaType, Output, Source, Text

INLINE_CHARS: Final = 16_384
"""A longer text stands in a blob; above the 12,000 characters an item may have, so that it is rarely needed."""

MAX_DEPTH: Final = 64
"""Levels of nesting that a foreign value keeps; json's own encoder gives up at about 1,000."""


class Recorded(BaseModel):
    """Base of everything in the run: frozen, unknown fields refused, absent fields not written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}


class StoredText(Recorded):
    """One text output."""

    type: Literal["text"] = "text"
    text: str
    """The text as the model was shown it; only its beginning and end when `text_sha256` is there."""
    source: Source
    of_cell: int | None = None
    """Number of the earlier cell that wrote it; absent: the cell it stands in."""
    missing_chars: int = 0
    """Characters that were cut before the model was shown it."""
    text_sha256: str | None = None
    """Blob that holds the text as the model was shown it; absent when `text` is that."""
    full_sha256: str | None = None
    """Blob that holds the text as the cell wrote it; absent when nothing was cut, or the rest was not kept."""
    full_size_bytes: int | None = None
    """Size of the text as the cell wrote it, in UTF-8; counted even where it was not kept."""


class StoredImage(Recorded):
    """One picture; its bytes are a blob."""

    type: Literal["image"] = "image"
    sha256: str
    """Hash of the encoded file and name of its blob, 64 hex digits; computed outside."""
    width: int
    """Pixels, as the inside said."""
    height: int
    """Pixels, as the inside said."""
    media_type: MediaType
    size_bytes: int
    """Size of the encoded file."""
    of_cell: int | None = None
    """As in `StoredText`."""
    kept: bool = True
    """False when the blob was left out because the cell or the run had kept as much as it may."""


StoredOutput = Annotated[StoredText | StoredImage, Field(discriminator="type")]


class Digest(Recorded):
    """One item that was sent to the model, named without its content."""

    type: str
    """The item's `type`; `message` where it has none."""
    sha256: str
    """Hash of the item's JSON with sorted keys, 64 hex digits."""
    size_bytes: int
    """Size of that JSON."""
    role: str | None = None
    """The item's `role`; absent where it has none."""
    call_id: str | None = None
    """The item's `call_id`; absent where it has none."""


def stored(output: Output, whole: str | None = None) -> tuple[StoredText | StoredImage, tuple[bytes, ...]]:
    """Return the output as the journal keeps it, and the blobs that it names.

    Args:
        output: As it came from inside.
        whole: The text as the cell wrote it, where `output` is a text that was cut.
    """
    match output:
        case Text():
            return _stored_text(output, whole)
        case Image():
            image = StoredImage(
                sha256=output.sha256,
                width=output.width,
                height=output.height,
                media_type=output.media_type,
                size_bytes=len(output.data),
                of_cell=output.of_cell,
            )
            return image, (output.data,)
        case _:
            assert_never(output)


def restored(output: StoredText | StoredImage, load: Callable[[str], bytes]) -> Text | Image:
    """Return the output as it came from inside; `load` gives the bytes of a blob by its hash.

    A picture whose bytes were not kept becomes a sentence that says so.
    """
    match output:
        case StoredText():
            text = output.text if output.text_sha256 is None else _decoded(load(output.text_sha256))
            return Text(text=text, source=output.source, of_cell=output.of_cell, missing_chars=output.missing_chars)
        case StoredImage(kept=False):
            lost = f"[image of {output.width}x{output.height}, {output.size_bytes} bytes: not kept, the run was full]"
            return Text(text=lost, source="notice", of_cell=output.of_cell)
        case StoredImage():
            return Image(
                media_type=output.media_type,
                width=output.width,
                height=output.height,
                data=load(output.sha256),
                of_cell=output.of_cell,
            )
        case _:
            assert_never(output)


def screenshot_image(png: bytes) -> StoredImage:
    """Return how the journal names a screenshot; a size that its header does not tell is 0."""
    is_png = png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) >= 24
    return StoredImage(
        sha256=hashlib.sha256(png).hexdigest(),
        width=int.from_bytes(png[16:20]) if is_png else 0,
        height=int.from_bytes(png[20:24]) if is_png else 0,
        media_type="image/png",
        size_bytes=len(png),
    )


def digest_of(item: Mapping[str, object]) -> Digest:
    """Return the digest of one input item of a model request."""
    data = json.dumps(as_json(item), ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode("ascii")
    said = {name: value for name in ("role", "call_id") if isinstance(value := item.get(name), str)}
    kind = item.get("type")
    return Digest(
        type=kind if isinstance(kind, str) else "message",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        role=said.get("role"),
        call_id=said.get("call_id"),
    )


def as_json(value: object, depth: int = 0) -> JsonValue:
    """Return any value as JSON that can be written: what JSON has, as it is; the rest as a string that tells it.

    Values nested deeper than `MAX_DEPTH`, NaN, infinities and integers of more than 4,096 bits become strings;
    a lone surrogate in a name is written out (pydantic 2.14 keeps them in values only).
    """
    match value:
        case None | bool() | str():
            return value
        case int() | float():
            return _as_number(value)
        case Mapping() | list() | tuple() if depth >= MAX_DEPTH:
            return f"[nested deeper than {MAX_DEPTH} levels: not kept]"
        case Mapping():
            return {_as_name(name): as_json(part, depth + 1) for name, part in value.items()}
        case list() | tuple():
            return [as_json(part, depth + 1) for part in value]
        case _:
            return repr(value)


Milliseconds = Annotated[int, Field(gt=-(2**53), lt=2**53)]
"""A duration; a larger one is none, and would not go into a number with a fraction where it is shown."""

Foreign = Annotated[JsonValue, BeforeValidator(as_json)]
"""JSON that somebody else made."""


def _as_name(name: object) -> str:
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


def _as_number(value: float) -> JsonValue:
    if isinstance(value, int):
        return value if value.bit_length() <= 4096 else hex(value)
    return value if math.isfinite(value) else str(value)


def _stored_text(output: Text, whole: str | None) -> tuple[StoredText, tuple[bytes, ...]]:
    shown, blobs = output.text, []
    text_sha256 = full_sha256 = full_size_bytes = None
    if len(shown) > INLINE_CHARS:
        blobs.append(_encoded(shown))
        text_sha256 = hashlib.sha256(blobs[-1]).hexdigest()
        half = INLINE_CHARS // 4
        shown = f"{shown[:half]}\n[{len(shown) - 2 * half} characters stand in the blob]\n{shown[-half:]}"
    if whole is not None:
        blobs.append(_encoded(whole))
        full_sha256, full_size_bytes = hashlib.sha256(blobs[-1]).hexdigest(), len(blobs[-1])
    kept = StoredText(
        text=shown,
        source=output.source,
        of_cell=output.of_cell,
        missing_chars=output.missing_chars,
        text_sha256=text_sha256,
        full_sha256=full_sha256,
        full_size_bytes=full_size_bytes,
    )
    return kept, tuple(blobs)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
