"""Pictures on their way to a model server: how large they are, and which of them are left out with a sentence instead.

Flows in: a picture as a `data:` URL. Flows out: its sides in pixels, read from its first bytes; nothing is decoded
here. Decided here: what stands in place of a picture that is left out, and that where there are too many the oldest go,
many at a time: each time that one goes, the server's cached prefix is lost from there.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from cellwright.model.base import Item

Mark: TypeAlias = tuple[int, int]

_HEADS: Final = (64, 4096, 256 * 1024)
"""So many characters of base64 are looked through, one after the other: in a PNG the sides stand at once, in a JPEG behind what a camera had
to say."""
_SIZED_MARKERS: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG segments that say the size."""
_WITHOUT_LENGTH: Final = frozenset({0x01, *range(0xD0, 0xD9)})

_PLACE: Final = re.compile(r"input\[(\d{1,9})\]\.\w+\[(\d{1,9})\]")

REFUSED: Final = "[A picture was left out: the model server refused it.]"
TOO_MANY: Final = "[An older picture was left out: the model server takes {most} at once.]"
TOO_LARGE: Final = "[A picture of {width}x{height} pixels was left out: the model server takes {most} a side. Show a part of it, or a smaller one.]"
NOT_TAKEN: Final = "[A picture was left out: this model server takes none from a call.]"
FOLLOWS: Final = "[Picture {number} follows in the next message.]"


def size_of(url: str) -> tuple[int, int] | None:
    """Return a picture's width and height in pixels, as its own head has them; None where that cannot be read."""
    start = url.find(",") + 1
    encoded = url[start : start + _HEADS[-1]]  # a picture has megabytes
    for chars in _HEADS:
        try:
            size = _size_in(base64.b64decode(encoded[:chars] + "==="))
        except ValueError:  # of which binascii.Error is one
            return None
        if size is not None:
            return size
        if chars >= len(encoded):
            return None
    return None


def mark_of(url: str) -> Mark:
    """Return what a picture is known by in this process; a text keeps its hash, so that to ask again costs nothing."""
    return len(url), hash(url)


class RefusedPictures:
    """Which pictures a server has refused, and which it has taken."""

    def __init__(self) -> None:
        self.refused: set[Mark] = set()
        self._taken: set[Mark] = set()

    def take(self, history: Iterable[Item]) -> None:
        """Remember that all of these were taken."""
        self._taken |= {mark for mark in map(mark_of, pictures_in(history)) if mark not in self.refused}

    def refuse(self, sent: Sequence[Item], where: str | None) -> bool:
        """Mark what was refused of the items that were sent: the picture that the server names, else all that it has not taken before.

        Args:
            sent: What was sent as `input`.
            where: The place in it, as the API names one: `input[3].output[0].image_url`; absent: not said.

        Returns:
            Whether there is any, so that the request may be made again without it.
        """
        named = _at(sent, where)
        new = {mark_of(named)} if named else {mark_of(url) for url in pictures_in(sent)} - self._taken
        new -= self.refused
        self.refused |= new
        return bool(new)


def _at(sent: Sequence[Item], where: str | None) -> str | None:
    """Return the picture at a place of the request; None where there is none."""
    match = _PLACE.match(where) if isinstance(where, str) else None  # a server may say anything
    if match is None or int(match[1]) >= len(sent):
        return None
    parts = parts_of(sent[int(match[1])])
    part = parts[int(match[2])] if int(match[2]) < len(parts) else {}
    return str(part.get("image_url")) if is_picture(part) else None


def pictures_in(items: Iterable[Item]) -> Iterator[str]:
    """Yield the pictures of a history in order, each by its URL."""
    for item in items:
        for part in parts_of(item):
            if is_picture(part):
                yield str(part.get("image_url") or "")


def parts_of(item: Item) -> list[Mapping[str, JsonValue]]:
    """Return the parts of an answer or a message; nothing where it has none."""
    listed = item.get("output") if str(item.get("type")).endswith("_output") else item.get("content")
    return [part for part in listed if isinstance(part, dict)] if isinstance(listed, list) else []


def is_picture(part: Mapping[str, JsonValue]) -> bool:
    """Return whether a part is one."""
    return part.get("type") == "input_image"


def left_out_of(total: int, most: int | None) -> int:
    """Return how many of the oldest pictures are left out: half of what may be sent at a time."""
    if most is None or total <= most:
        return 0
    if most == 0:
        return total
    step = max(1, most // 2)
    return min(total, -(-(total - most) // step) * step)


def _size_in(head: bytes) -> tuple[int, int] | None:
    try:
        if head.startswith(b"\x89PNG"):
            width, height = struct.unpack_from(">II", head, 16)
            return int(width), int(height)
        if head.startswith(b"\xff\xd8"):
            return _jpeg(head)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return _webp(head)
    except struct.error:
        return None
    return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """Go from marker to marker until the one that has the size."""
    at = 2
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker in _SIZED_MARKERS:
            height, width = struct.unpack_from(">HH", head, at + 5)
            return int(width), int(height)
        if marker == 0xFF:
            at += 1
        elif marker in _WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return int(width) & 0x3FFF, int(height) & 0x3FFF
        case _:
            return None
