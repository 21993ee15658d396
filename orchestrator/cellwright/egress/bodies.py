"""A request's body on its way, looked through for placeholders, also where it is compressed.

Flows in: the body in pieces as they came, and the request's headers. Flows out: nothing, or a refusal. Decided here: gzip and
deflate are opened, also within each other; what is known to compress otherwise (br, zstd, snappy) is refused; a coding that
nobody knows is looked at as it is. What is opened is held 64 KiB at a time, others have their turn after each step, and what
grows as no honest body does is refused, whether that shows at the end or on the way only.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from cellwright.egress.placeholders import Placeholders, Refused

_ZLIB: Final = 15
_RAW: Final = -15
"""Deflate without the head that it should have; some send it so, and some servers take it."""
_OPENED: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": None}
"""Codings and how zlib is told to expect them; None: the first bytes tell."""
_TELLING_BYTES: Final = 5
_CLOSED: Final = frozenset(
    b"br brotli zstd zstandard compress x-compress dcb dcz exi pack200-gzip snappy x-snappy-framed lz4 lzma xz bzip2 x-bzip2 bz2".split()
)
_WORD: Final = re.compile(rb"[a-z0-9_-]+")
_MOST_CODINGS: Final = 3
_PIECE: Final = 64 * 1024
_GROWTH: Final = 200
"""Bytes for each that came, on average; logs come to 20, and gzip can do 1,000."""
_FREE_BYTES: Final = 16 * 1024**2
"""So much may come out however few went in."""
_BEGINNING_BYTES: Final = 4096
"""For which each beginning within a body counts: it is work, though nothing may come out."""


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
        opened = [name for name in reversed(self._codings) if name in _OPENED]
        self._has_too_many = len(opened) > _MOST_CODINGS  # a head has room for thousands
        self._openings = [] if self._has_too_many else [_Opening(_OPENED[name]) for name in opened]
        self._came = 0

    async def look(self, data: bytes) -> None:
        """Look at the next piece.

        Raises:
            Refused: A placeholder ends in it, or it cannot be opened.
        """
        self._as_it_is.look(data)
        closed = next((name for name in self._codings if name in _CLOSED), None)
        if closed is not None or self._has_too_many:
            by = f"more than {_MOST_CODINGS} codings" if closed is None else closed.decode("ascii")
            raise Refused(self._sentence(f"is compressed by {by}"))
        if not self._openings:
            return
        self._came += len(data)
        try:
            for piece in _opened(self._openings, data):
                if sum(opening.grown for opening in self._openings) > max(_FREE_BYTES, self._came * _GROWTH):
                    raise Refused(self._sentence(f"becomes more than {_GROWTH} times as long when it is opened"))
                if piece:
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
    """Return what a body was coded by, in order; parameters are words of it, too, and some servers skip them."""
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    return [word for value in values for word in _WORD.findall(value.lower())]


def _opened(openings: list[_Opening], data: bytes) -> Iterator[bytes]:
    """Open bytes by all of them; there is a piece after each step, which may be empty."""
    if not openings or not data:
        yield data
        return
    for piece in openings[0].opened(data):
        yield from _opened(openings[1:], piece)


class _Opening:
    """One coding of a body."""

    def __init__(self, expected: int | None) -> None:
        self._expected = expected
        self._inflate = zlib.decompressobj(_RAW if expected is None else expected)
        self._first = b""  # what has come while it was too little to tell
        self.grown = 0
        """Bytes that came out, and what counts as such."""

    def opened(self, data: bytes) -> Iterator[bytes]:
        """Open the next bytes; they come in pieces of bounded length, an empty one where work was done and nothing came out.

        Raises:
            zlib.error: They are not what was said.
        """
        if self._expected is None:
            self._first += data
            if len(self._first) < _TELLING_BYTES:
                yield b""
                return
            data, self._first = self._first, b""
            self._expected = _kind_of_deflate(data)
            self._inflate = zlib.decompressobj(self._expected)
        while data:
            if self._inflate.eof:  # behind the end: padding, or one more of the kind
                data = data.lstrip(b"\0")
                if not data:
                    yield b""
                    return
                self._inflate = zlib.decompressobj(self._expected)
                self.grown += _BEGINNING_BYTES
            yield from self._pieces(data)
            data = self._inflate.unused_data

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._inflate.decompress(data, _PIECE)
        while True:
            self.grown += len(piece)
            yield piece
            if not piece:
                return
            piece = self._inflate.decompress(self._inflate.unconsumed_tail, _PIECE)


def _kind_of_deflate(first: bytes) -> int:
    """Return how zlib is told to expect it: with a head or without.

    Raises:
        zlib.error: It can be read either way, which happens on purpose, and servers differ in which way they take.
    """
    has_head = first[0] & 0x0F == zlib.DEFLATED and int.from_bytes(first[:2], "big") % 31 == 0
    if has_head and first[1] ^ first[3] == first[2] ^ first[4] == 0xFF:  # a length and its complement, without a head
        raise zlib.error("deflate with a head and without")
    return _ZLIB if has_head else _RAW
