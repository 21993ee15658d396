"""One request in clear and its response, as both stood on the wire outside.

Flows in: what `witness.py` has read. Flows out: values that the run keeps and `tape.py` gives back. Decided here: how much of
a body is kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

BODY_BYTES: Final = 8 * 1024**2
"""Most of a body that is kept; a larger one is counted only."""

Headers = tuple[tuple[str, str], ...]
"""Names and values in order, of latin-1 text, as HTTP has them."""


@dataclass(frozen=True, slots=True)
class Body:
    """What a request or a response carries."""

    size_bytes: int
    sha256: str
    """Hash of all of it, 64 hex digits."""
    data: bytes | None
    """Its bytes; None when they are more than is kept."""


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

    @property
    def changes_nothing(self) -> bool:
        """Whether HTTP says that it only reads."""
        return self.method in {"GET", "HEAD", "OPTIONS"}


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


class Gathering:
    """A body that is coming."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._pieces: list[bytes] | None = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Take the next piece of it."""
        self._hash.update(data)
        self._size += len(data)
        if self._pieces is not None:
            self._pieces.append(data)
            if self._size > BODY_BYTES:
                self._pieces = None

    def body(self) -> Body:
        """Return it, as far as it has come."""
        data = None if self._pieces is None else b"".join(self._pieces)
        return Body(self._size, self._hash.hexdigest(), data)
