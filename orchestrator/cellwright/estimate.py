"""About how many tokens the items of a request have, before they are sent.

Flows in: items, words, schemas. Flows out: a number of tokens. Decided here: the estimate, as the API's documents say: four characters
are a token, and a picture has one for each 32x32 pixels. The same items give the same number always, so that a run which is resumed
decides as it would have.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Final

_PATCH: Final = 32
_UNKNOWN_PICTURE: Final = 45 * 32
"""Of 1440x1000, where the header doesn't tell."""
_NO_WORDS: Final = ("id", "call_id", "status", "type", "role")


def tokens_of(value: object) -> int:
    """Return about how many tokens a value has, an item or many."""
    match value:
        case {"type": "input_image", "image_url": str() as url}:
            return picture_tokens(url)
        case Mapping():
            return sum(tokens_of(part) for name, part in value.items() if name not in _NO_WORDS)
        case list() | tuple():
            return sum(tokens_of(part) for part in value)
        case str():
            return (len(value) + 3) // 4
        case _:
            return 0


def picture_tokens(url: str) -> int:
    """Return how many tokens a picture has, by the header of a PNG."""
    try:
        head = base64.b64decode(url.partition(",")[2][:32])
        width, height = struct.unpack(">II", head[16:24])
    except (binascii.Error, struct.error):
        return _UNKNOWN_PICTURE
    return -(-width // _PATCH) * -(-height // _PATCH) if head.startswith(b"\x89PNG") else _UNKNOWN_PICTURE
