"""About how many tokens something has that is about to be sent to a model.

Flows in: items, words, schemas, or a whole request. Flows out: tokens, and patches of pictures. Decided here: four characters are one
token, and a picture has one for each 32x32 pixels, as the API's documents say; and that a picture whose size cannot be read is one of
1440x1000. The same items give the same number always, so that a run which is resumed decides as it would have.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from cellwright.model.base import Item, Request

PATCH: Final = 32
"""Pixels of a side."""
UNREADABLE_PATCHES: Final = 45 * 32
"""Of a picture of 1440x1000, the whole desktop."""
_CHARS: Final = 4
_HEADS: Final = (64, 4096, 256 * 1024)
"""So many characters of a picture, in base64, are looked through for its size, one after the other: in a PNG it stands at once, in a
JPEG behind what a camera had to say."""
_NOT_COUNTED: Final = frozenset({"id", "call_id", "status", "type", "role"})
_SIZES: Final = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""Markers of a JPEG after which its size stands."""
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})


def tokens_of_request(request: Request) -> int:
    """Return about how many tokens a request has."""
    tools = sum(len(json.dumps(dict(tool))) for tool in request.tools)
    return -(-(len(request.instructions) + tools) // _CHARS) + tokens_of(request.history)


def tokens_of(value: object) -> int:
    """Return about how many tokens a value has, an item or many."""
    match value:
        case {"type": "input_image", "image_url": str() as url}:
            return picture_tokens(url)
        case Mapping():
            return sum(tokens_of(part) for name, part in value.items() if name not in _NOT_COUNTED)
        case list() | tuple():
            return sum(map(tokens_of, value))
        case str():
            return -(-len(value) // _CHARS)
        case _:
            return 0


def patches_of(history: tuple[Item, ...]) -> int:
    """Return how many patches the pictures in a history have."""
    return sum(patches for patches in _patches_in(history))


def picture_tokens(url: str) -> int:
    """Return the tokens, which are the patches, of a picture in a `data:` URL, by what its first bytes say of its size."""
    encoded = url[url.find(",") + 1 :][: _HEADS[-1]]
    for chars in _HEADS:
        try:
            size = _size_of(base64.b64decode(encoded[:chars]))
        except binascii.Error:
            break
        if size is not None and 0 not in size:
            return -(-size[0] // PATCH) * -(-size[1] // PATCH)
    return UNREADABLE_PATCHES


def _patches_in(value: object) -> Iterator[int]:
    match value:
        case {"type": "input_image", "image_url": str() as url}:
            yield picture_tokens(url)
        case Mapping():
            for part in value.values():
                yield from _patches_in(part)
        case list() | tuple():
            for part in value:
                yield from _patches_in(part)
        case _:
            pass


def _size_of(data: bytes) -> tuple[int, int] | None:
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            width, height = struct.unpack_from(">II", data, 16)
            return width, height
        return _size_of_jpeg(data) if data.startswith(b"\xff\xd8") else None
    except struct.error:
        return None


def _size_of_jpeg(data: bytes) -> tuple[int, int] | None:
    """Go from marker to marker until the one that has the size."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _SIZES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        if marker == 0xFF:
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None
