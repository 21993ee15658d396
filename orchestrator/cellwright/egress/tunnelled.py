"""The first words in a tunnel, before anything of it is carried.

Flows in: the two sides of a tunnel that is open. Flows out: whether the inside speaks HTTP in it that anybody can read.
Decided here: the inside has to speak first for that, and nothing that was said meanwhile is lost. What begins as requests
mostly do is waited for; what begins as one only could, such as a word in small letters, is not, since other protocols do, too:
where it becomes one later, `Begun` tells.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from cellwright.egress.relay import Side

_METHOD: Final = re.compile(rb"\s*[A-Z]{2,20} ")
_BEGINS: Final = re.compile(rb"\s*[A-Z]{0,20}")
_HTTP2: Final = b"PRI * HTTP/2"

_GAP: Final = rb"[ \t\v\f\r]+"
_WORD: Final = rb"[!-~\x80-\xff]"
_LINE: Final = re.compile(rb"\s*%b+%b%b+%bHTTP/" % (_WORD, _GAP, _WORD, _GAP))
"""How any request begins that some server takes: with empty lines before it, or a method that nobody knows."""
_PART_OF_LINE: Final = re.compile(
    rb"\s*(?:%b+(?:%b(?:%b+(?:%b(?:H(?:T(?:TP?)?)?)?)?)?)?)?" % (_WORD, _GAP, _WORD, _GAP)
)
_MOST_OF_LINE: Final = 8 * 1024
"""Bytes that are looked at for it, each time more come; what might be one still is taken for one then."""


async def says_http(inside: Side, outside: Side, limit_s: float) -> bool:
    """Return whether the inside has begun a request of HTTP/1; where the outside speaks first, it has not.

    Args:
        inside: Who asked for the tunnel.
        outside: Where it leads.
        limit_s: Seconds that a beginning may take to become more.
    """
    before = inside.conn.trailing_data[0]
    said = before or await _first(inside, outside)
    try:
        async with asyncio.timeout(limit_s):
            while said and _BEGINS.fullmatch(said) and (more := await inside.read()):
                said += more
    except TimeoutError:
        return False
    finally:
        inside.push_back(said[len(before) :])
    return bool(_METHOD.match(said) or _LINE.match(said)) and not said.startswith(_HTTP2)


class Begun:
    """What was let go as no request, and might yet become one."""

    def __init__(self) -> None:
        self._said = b""
        self._may_become = True

    def is_request(self, data: bytes) -> bool:
        """Take the next bytes; return whether a request's first line ends in them."""
        if not self._may_become:
            return False
        self._said += data[: _MOST_OF_LINE - len(self._said)]
        if _LINE.match(self._said):
            return not self._said.startswith(_HTTP2)
        self._may_become = bool(_PART_OF_LINE.fullmatch(self._said))
        return self._may_become and len(self._said) == _MOST_OF_LINE


async def _first(inside: Side, outside: Side) -> bytes:
    """Wait until one of them has said something; return what the inside has."""
    reading = {asyncio.ensure_future(side.read()): side for side in (inside, outside)}
    try:
        await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for read in reading:
            read.cancel()  # one that has not ended has taken nothing
        await asyncio.gather(*reading, return_exceptions=True)
    said = {side: read.result() for read, side in reading.items() if not read.cancelled() and not read.exception()}
    outside.push_back(said.get(outside, b""))
    return said.get(inside, b"")
