"""About how many tokens something has that is about to be sent to a model.

Flows in: items, words, schemas, or a whole request. Flows out: tokens, and patches of pictures. Decided here: four characters are one
token, and a picture has one for each 32x32 pixels, as the API's documents say; and that a picture whose size cannot be read is one of
1440x1000. The same items give the same number always, so that a run which is resumed decides as it would have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from cellwright.model.base import Item, Request
from cellwright.model.pictures import size_of

PATCH: Final = 32
"""Pixels of a side."""
UNREADABLE_PATCHES: Final = 45 * 32
"""Of a picture of 1440x1000, the whole desktop."""
_CHARS: Final = 4
_NOT_COUNTED: Final = frozenset({"id", "call_id", "status", "type", "role"})


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
    return sum(_patches_in(history))


def picture_tokens(url: str) -> int:
    """Return the tokens, which are the patches, of a picture in a `data:` URL, by what its first bytes say of its size."""
    size = size_of(url)
    return UNREADABLE_PATCHES if size is None or 0 in size else -(-size[0] // PATCH) * -(-size[1] // PATCH)


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
