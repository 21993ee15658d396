"""One request and its response: in clear, as both stood on the wire outside; by HTTPS, as the inside tells.

Flows in: what `witness.py` has read, or the browser's informant has told. Flows out: values that the run keeps and `tape.py` gives back. Decided here: how much of
a body is kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

BODY_BYTES: Final = 8 * 1024**2
"""Most of a body that is kept; a larger one is counted only."""
COMING_BYTES: Final = 64 * 1024**2
"""Most that is held of bodies which are still coming, of all connections of a session; one that finds no room is counted only."""

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing, as HTTP says."""

Headers = tuple[tuple[str, str], ...]
"""Names and values in order, of latin-1 text, as HTTP has them."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a request or a response carries."""

    size_bytes: int
    sha256: str
    """Hash of all of it, 64 hex digits; empty where not all of it was seen."""
    data: bytes | None
    """Its bytes; None when they are more than is kept, or were not seen."""

    @classmethod
    def of(cls, data: bytes) -> Body:
        """Return the body of these bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), data)


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose head has been read."""

    method: str
    host: str
    """Where its connection leads, in its plain form."""
    port: int
    target: str
    """As in the request's first line: a path with its query."""
    headers: Headers
    scheme: Literal["http", "https"] = "http"

    @property
    def url(self) -> str:
        """What is asked for, with its port."""
        return f"{self.scheme}://{self.host}:{self.port}{self.target}"

    @property
    def changes_nothing(self) -> bool:
        """Whether HTTP says that it only reads."""
        return self.method in READING


@dataclass(frozen=True, slots=True)
class Traffic:
    """A request, and the response that came to its end."""

    request: Request
    request_body: Body
    status: int
    reason: str
    """Of the status line; mostly empty."""
    headers: Headers
    body: Body
    at: datetime | None = None
    """When it was noted; absent while it comes."""


class Room:
    """How many bytes of bodies that are still coming are held at once, of all connections of a session.

    Args:
        most_bytes: So many.
    """

    def __init__(self, most_bytes: int = COMING_BYTES) -> None:
        self._left = most_bytes

    def take(self, size: int) -> bool:
        """Take so many bytes of it; False, and nothing is taken, when there are not as many left."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give(self, size: int) -> None:
        """Give back what was taken."""
        self._left += size


class Gathering:
    """A body that is coming.

    Args:
        room: What its bytes are taken from.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._hash = hashlib.sha256()
        self._held: bytearray | None = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Take the next piece of it."""
        self._hash.update(data)
        self._size += len(data)
        if self._held is None:
            return
        if self._size <= BODY_BYTES and self._room.take(len(data)):
            self._held += data
        else:
            self.drop()

    def body(self) -> Body:
        """Return it, as far as it has come."""
        data = None if self._held is None else bytes(self._held)
        return Body(self._size, self._hash.hexdigest(), data)

    def drop(self) -> None:
        """Hold its bytes no longer; may be called more than once."""
        if self._held is not None:
            self._room.give(len(self._held))
            self._held = None
