"""A request's body on its way, looked through for placeholders, also where it is compressed.

Flows in: the body in pieces as they came, and the request's headers. Flows out: nothing, or a refusal. Decided here: gzip and
deflate are opened, also within each other; what HTTP knows and the standard library cannot open (br, zstd, compress) is refused;
a coding that HTTP does not know is looked at as it is. What is opened is held 64 KiB at a time, and what grows as no honest body
does is refused.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from cellwright.egress.placeholders import Placeholders, Refused

_ZLIB: Final = 15
_ZLIB_HEAD_BYTES: Final = 2
_OPENED: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": _ZLIB}
"""Codings and how zlib is told to expect them."""
_RAW_DEFLATE: Final = -15
"""Without the head that it should have; some send it so, and some servers take it."""
_CLOSED: Final = frozenset({b"br", b"zstd", b"compress", b"x-compress", b"dcb", b"dcz"})
_MOST_CODINGS: Final = 3
_PIECE: Final = 64 * 1024
_GROWTH: Final = 200
"""Bytes for each that came, on average; logs come to 20, and gzip can do 1,000."""
_FREE_BYTES: Final = 16 * 1024**2
"""So much may come out however few went in."""


class BodyWatch:
    """Looks through one body.

    Args:
        placeholders: What it must not have.
        headers: Of its request.
        host: Where it is for.
        port: The same.
    """

    def __init__(
        self, placeholders: Placeholders, headers: Iterable[tuple[bytes, bytes]], host: str, port: int
    ) -> None:
        self._codings = _codings(headers)
        self._place = f"{host}:{port}"
        self._as_it_is = placeholders.watch("the body", host, port)
        self._within = placeholders.watch("the body", host, port)
        self._openings = [_Opening(name) for name in reversed(self._codings) if name in _OPENED]
        self._came = self._grown = 0

    async def look(self, data: bytes) -> None:
        """Look at the next piece.

        Raises:
            Refused: A placeholder ends in it, or it cannot be opened.
        """
        self._as_it_is.look(data)
        closed = next((name for name in self._codings if name in _CLOSED), None)
        if closed is not None or len(self._openings) > _MOST_CODINGS:
            by = f"more than {_MOST_CODINGS} codings" if closed is None else closed.decode("ascii")
            raise Refused(self._sentence(f"is compressed by {by}"))
        if not self._openings:
            return
        self._came += len(data)
        try:
            for piece in _opened(self._openings, data):
                self._grown += len(piece)
                if self._grown > max(_FREE_BYTES, self._came * _GROWTH):
                    raise Refused(self._sentence(f"becomes more than {_GROWTH} times as long when it is opened"))
                self._within.look(piece)
                await asyncio.sleep(0)  # a little can become much, and others have their turn
        except zlib.error as error:
            raise Refused(self._sentence("says that it is compressed, and could not be opened")) from error

    def _sentence(self, what: str) -> str:
        return (
            f"The body of a request to {self._place} {what}, so that it cannot be looked through for what stands for a secret, and "
            "this session has secrets. It was not sent on. Send it as it is, or compressed by gzip."
        )


def _codings(headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Return what a body was coded by, in order."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    return [word for value in values for part in value.split(b",") if (word := part.strip().lower())]


def _opened(openings: list[_Opening], data: bytes) -> Iterator[bytes]:
    if not openings:
        yield data
        return
    for piece in openings[0].opened(data):
        yield from _opened(openings[1:], piece)


class _Opening:
    """One coding of a body."""

    def __init__(self, coding: bytes) -> None:
        self._expected = _OPENED[coding]
        self._inflate = zlib.decompressobj(self._expected)
        self._first = b""  # two bytes tell how deflate was meant

    def opened(self, data: bytes) -> Iterator[bytes]:
        """Open the next bytes; they come in pieces of bounded length.

        Raises:
            zlib.error: They are not what was said.
        """
        while data:
            if self._inflate.eof:  # behind the end: padding, or one more of the kind
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._inflate = zlib.decompressobj(self._expected)
            yield from self._pieces(data)
            data = self._inflate.unused_data

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._begun(data)
        while piece:
            yield piece
            piece = self._inflate.decompress(self._inflate.unconsumed_tail, _PIECE)

    def _begun(self, data: bytes) -> bytes:
        try:
            piece = self._inflate.decompress(data, _PIECE)
        except zlib.error:
            if self._expected != _ZLIB or len(self._first) >= _ZLIB_HEAD_BYTES:
                raise
            self._expected = _RAW_DEFLATE
            self._inflate = zlib.decompressobj(_RAW_DEFLATE)
            return self._inflate.decompress(self._first + data, _PIECE)
        self._first = (self._first + data[:_ZLIB_HEAD_BYTES])[:_ZLIB_HEAD_BYTES]
        return piece
