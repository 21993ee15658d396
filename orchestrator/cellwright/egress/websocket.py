"""Frames of a WebSocket, as far as one must know them to look through what they say.

Flows in: bytes of one direction, in whatever pieces. Flows out: what the frames carry, unmasked, as it comes; where one ends;
and the frame with which a connection is ended for a reason. Decided here: a frame that says it was changed by an extension is an
error, because the offer of extensions is taken out of the handshake where somebody wants to look; nothing of a frame is held but
its head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

EXTENSIONS: Final = b"sec-websocket-extensions"
"""The header that offers them, such as compressing messages."""

_RESERVED: Final = 0x70
_CONTROL: Final = 0x08
_MASKED: Final = 0x80
_LENGTH: Final = 0x7F
_EXTENDED: Final = {126: 2, 127: 8}
_POLICY_VIOLATION: Final = 1008
_REASON_BYTES: Final = 123


class NoFrame(Exception):
    """What came is no frame, or one of an extension."""


class Frames:
    """Frames of one direction."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0  # bytes of the frame that have not come
        self._mask = b""  # as its next byte meets it; empty when there is none
        self._is_control = False

    @property
    def is_between(self) -> bool:
        """True when a frame has ended and no other one has begun."""
        return not self._head and not self._left

    def said(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Take the next bytes; return whether it is a control frame's, and what it says, a part at a time.

        Raises:
            NoFrame: It is none.
        """
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                yield self._is_control, self._unmasked(part)
                continue
            more = data[at : at + _head_bytes(self._head) - len(self._head)]
            self._head += more
            at += len(more)
            if len(self._head) == _head_bytes(self._head):
                self._begin(self._head)
                self._head = b""

    def _begin(self, head: bytes) -> None:
        if head[0] & _RESERVED:
            raise NoFrame("a frame was changed by an extension that was not agreed on")
        self._is_control = bool(head[0] & _CONTROL)
        extended = _EXTENDED.get(head[1] & _LENGTH, 0)
        self._left = int.from_bytes(head[2 : 2 + extended], "big") if extended else head[1] & _LENGTH
        self._mask = head[2 + extended :]

    def _unmasked(self, part: bytes) -> bytes:
        if not self._mask:
            return part
        size = len(part)
        mask = (self._mask * (size // 4 + 1))[:size]
        turned = size % 4
        self._mask = self._mask[turned:] + self._mask[:turned]
        return (int.from_bytes(part, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")


def ending(reason: str) -> bytes:
    """Return the server's frame that ends a connection; of the reason, as many bytes as there is room for."""
    payload = _POLICY_VIOLATION.to_bytes(2, "big") + reason.encode("ascii", "replace")[:_REASON_BYTES]
    return bytes((0x88, len(payload))) + payload


def _head_bytes(head: bytes) -> int:
    """Return how long a head is, as far as its beginning tells; never less than is known to be needed."""
    if len(head) < 2:
        return 2
    return 2 + _EXTENDED.get(head[1] & _LENGTH, 0) + (4 if head[1] & _MASKED else 0)
