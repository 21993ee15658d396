"""The part of a sandbox's door that tells of the browser's HTTPS.

Flows in: what the kernel host tells, and answers to what it asks. Flows out: messages, each checked against the wire types.
Decided here: how large one may be, and how much may be told during one cell; and that what is no message ends it all: it is
the telling that ends then, not the sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from pydantic import ValidationError

from cellwright.errors import CellwrightError
from cellwright.sandbox.bodies import bounded
from cellwright.sandbox.door import ANSWER_S, Door
from cellwright_kernel.wire_https import (
    HTTPS_ANSWER_BYTES,
    HTTPS_CELL_BYTES,
    HTTPS_LINE_BYTES,
    HTTPS_MESSAGE,
    HTTPS_MESSAGE_BYTES,
    HttpsAnswer,
    HttpsMessage,
)

END_S: Final = 3.0
"""Seconds in which the rest is told; some milliseconds are usual."""
_REASON_CHARS: Final = 200
"""Of why a message is none; the reason may quote it."""
_LARGE_BYTES: Final = 256 * 1024
"""From here on a message is read in a thread: 24 MiB take 60 ms."""


class Untrue(Exception):
    """What was told is nothing that a kernel host tells; a sentence."""


async def told(door: Door, *, taped: bool, cell: Callable[[], int]) -> AsyncIterator[HttpsMessage]:
    """Yield what is told, until its end.

    Args:
        door: Of the kernel host.
        taped: Whether the browser's requests are to be asked about.
        cell: Returns the number of the last cell; when it is another one, as much as before may be told again.

    Raises:
        Untrue: It is no message, or too large, or too much.
        CellwrightError: The stream broke off, or nothing is told there.
    """
    params = {"taped": "true" if taped else "false"}
    async with door.request("GET", "/https", params=params, silence_s=None, whole_s=None) as response:
        rest = bytearray()
        counted, size = cell(), 0
        async for chunk in response.aiter_raw():
            if (now := cell()) != counted:
                counted, size = now, 0
            size += len(chunk) + chunk.count(b"\n") * HTTPS_MESSAGE_BYTES
            if size > HTTPS_CELL_BYTES:
                raise Untrue("It told more during one cell than is listened to.")
            rest += chunk
            if b"\n" in chunk:
                *lines, last = bytes(rest).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    yield await _message(line)
            if len(rest) > HTTPS_LINE_BYTES:
                raise Untrue("It sent a message without end.")


async def answer(door: Door, number: int, said: HttpsAnswer) -> None:
    """Answer a request that waits; nothing happens when it waits no more."""
    with suppress(CellwrightError):
        body = said.model_dump_json().encode()
        if len(body) > HTTPS_ANSWER_BYTES:  # of a record made by hand; so that nobody waits for it in vain
            body = HttpsAnswer(status=502).model_dump_json().encode()
        async with door.request("POST", f"/https/answers/{number}", content=body, whole_s=ANSWER_S) as response:
            await bounded(response, 4096)


async def lift(door: Door) -> None:
    """Have nothing asked about any more."""
    with suppress(CellwrightError):
        async with door.request("POST", "/https/lift", whole_s=ANSWER_S) as response:
            await bounded(response, 4096)


async def end(door: Door) -> None:
    """Have the rest told."""
    with suppress(CellwrightError):
        async with door.request("POST", "/https/end", whole_s=END_S) as response:
            await bounded(response, 4096)


async def _message(line: bytes) -> HttpsMessage:
    if len(line) > HTTPS_LINE_BYTES:
        raise Untrue("It sent a message that is too large.")
    try:
        if len(line) > _LARGE_BYTES:
            return await asyncio.to_thread(HTTPS_MESSAGE.validate_json, line)
        return HTTPS_MESSAGE.validate_json(line)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise Untrue(f"It said what no kernel host says: {reason[:_REASON_CHARS]}.") from error
