"""The bodies of a kernel host's responses, read.

Flows in: a response's bytes, as they come. Flows out: bytes within a limit; the events of a cell; answers of the wire's
types. Decided here: how large an event may be and all events of a cell, that a cell's stream ends with the one event that
closes it, and that anything else than a well-formed answer means the sandbox is lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import httpx2
from pydantic import TypeAdapter, ValidationError

from cellwright.errors import SandboxLost
from cellwright_kernel.wire import EVENT, ClosedEvent, Event, FileInfo, KernelConnection, PictureDifference, Ready

LINE_BYTES: Final = 96 * 1024**2
"""Largest event: 64 MiB of kept text as base64, and room around it."""
CELL_BYTES: Final = 256 * 1024**2
"""Everything that one cell may send through the door."""

_FILES: Final = TypeAdapter(list[FileInfo])
_Answer = TypeVar("_Answer", Ready, KernelConnection, PictureDifference)


async def cell_events(response: httpx2.Response) -> AsyncIterator[Event]:
    """Yield events, the last of them a `ClosedEvent` and the only one.

    The stream is read to its end before that is yielded: a stream that is left costs the connection, 0.7 ms a cell.
    """
    closed: ClosedEvent | None = None
    async for line in _lines(response):
        if closed is not None:
            raise SandboxLost("The kernel host went on after it had closed a cell.")
        event = _event(line)
        if isinstance(event, ClosedEvent):
            closed = event
        else:
            yield event
    if closed is None:
        raise SandboxLost("The kernel host ended a cell's stream without closing the cell.")
    yield closed


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Split a bounded stream at newlines; httpx2's own splitter knows no longest line."""
    rest = bytearray()
    async for chunk in limited(response, CELL_BYTES):
        rest += chunk
        if len(rest) > LINE_BYTES:
            raise SandboxLost("The kernel host sent a line without end.")
        if b"\n" not in chunk:
            continue
        *whole, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in whole:
            if line:
                yield line


async def limited(response: httpx2.Response, limit: int) -> AsyncIterator[bytes]:
    """Yield a body's bytes; `SandboxLost` where they are too many."""
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > limit:
            raise SandboxLost(f"The kernel host sent more than {limit} bytes.")
        yield chunk


async def bounded(response: httpx2.Response, limit: int) -> bytes:
    """Return a body, as `limited` yields it."""
    return b"".join([chunk async for chunk in limited(response, limit)])


def _event(line: bytes) -> Event:
    try:
        return EVENT.validate_json(line)
    except ValidationError as error:
        raise SandboxLost(f"The kernel host said what no kernel host says: {_first(error)}.") from error


def checked(kind: type[_Answer], data: bytes) -> _Answer:
    """Return an answer of this type; `SandboxLost` where it is none."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        raise SandboxLost(f"The kernel host gave a malformed answer: {_first(error)}.") from error


def checked_files(data: bytes) -> list[FileInfo]:
    """Return a listing; `SandboxLost` where it is none."""
    try:
        return _FILES.validate_json(data)
    except ValidationError as error:
        raise SandboxLost(f"The kernel host gave a malformed list of files: {_first(error)}.") from error


def _first(error: ValidationError) -> str:
    return str(error.errors(include_url=False, include_input=False)[0]["msg"])
