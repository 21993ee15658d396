"""Two streams, and the bytes between them.

Flows in: streams as asyncio gives them. Flows out: HTTP events of one side, and how many bytes went each way.
Decided here: how much is held in memory for one side, which is one chunk and one head.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import Callable
from typing import Final, Protocol

import h11

from cellwright.egress.witness import Witness

HEAD_BYTES: Final = 32 * 1024
"""Largest head of a request or response; Chromium's own limit for a URL in a head is below it in practice."""
_CHUNK: Final = 64 * 1024
_LOOK: Final = 16 * 1024
"""Bytes that are looked at in one turn: as frames that say nothing, 64 KiB took 50 ms."""
_FLUSH_S: Final = 5.0
_PART_S: Final = 2.0


class Side:
    """One of the two streams of an exchange, and its HTTP state. A side belongs to one exchange."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: type[h11.CLIENT | h11.SERVER]
    ) -> None:
        self.conn = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)
        self._reader = reader
        self._writer = writer
        self.sent = 0
        """Bytes given to the stream."""
        self.received = 0
        """Bytes that came from it."""
        self._pushed_back = b""
        self.witness: Witness | None = None
        """Looks on at what is given to the stream and comes from it."""

    def within(self) -> Side:
        """Return a side for what is said within a tunnel that this side has asked for, and was given."""
        side = Side(self._reader, self._writer, h11.SERVER)
        side._pushed_back = self.conn.trailing_data[0] + self._pushed_back
        return side

    def push_back(self, data: bytes) -> None:
        """Have bytes that were read be read again."""
        self._pushed_back += data

    async def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """Return the next HTTP event that came.

        Raises:
            h11.RemoteProtocolError: What came is no HTTP, or its head is too large.
            OSError: The stream broke.
        """
        while True:
            event = self.conn.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.conn.receive_data(await self.read())

    async def send(self, event: h11.Event) -> None:
        """Send an HTTP event."""
        await self.write(self.conn.send(event) or b"")

    async def read(self) -> bytes:
        """Return some bytes; none at the stream's end."""
        if self._pushed_back:
            data, self._pushed_back = self._pushed_back, b""
            return data
        data = await self._reader.read(_CHUNK)
        self.received += len(data)
        if self.witness is not None:
            self.witness.received(data)
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the stream is full."""
        if self.witness is not None and data:
            self.witness.sent(data)
        self._writer.write(data)
        self.sent += len(data)
        await self._writer.drain()

    async def end(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):
            if self._writer.can_write_eof():  # TLS cannot
                self._writer.write_eof()

    async def close(self) -> None:
        """Close the stream once what was written has gone out, or could not for a while; safe to call twice."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._writer.wait_closed()
        except BaseException as error:
            self.abort()
            if not isinstance(error, OSError):  # it broke or took too long: then it is closed all the same
                raise

    def has_hung_up(self) -> bool:
        """See `Held`. What was said before may not have been read yet."""
        if self._writer.is_closing():
            return True
        looks = select.poll()
        looks.register(self._writer.get_extra_info("socket").fileno(), select.POLLRDHUP)
        return bool(looks.poll(0))

    def end_unsaid(self) -> None:
        """See `Held`."""
        if self.conn.their_state not in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            self.abort()

    def abort(self) -> None:
        """Close the stream at once and drop what was not sent yet."""
        self._writer.transport.abort()


class Looks(Protocol):
    """Who looks at what is relayed."""

    def sent(self, data: bytes) -> bytes | None:
        """Look at what is about to go to the second side; return None when it may, else the last words to the first side."""

    def received(self, data: bytes) -> None:
        """Look at what is about to go to the first side."""


async def relay(one: Side, other: Side, *, idle_s: float, looks: Looks | None = None) -> None:
    """Carry bytes both ways until both sides have ended, or none came for `idle_s` seconds.

    Args:
        one: A side.
        other: The other one.
        idle_s: The limit.
        looks: Is shown what is about to go; what it lets not go to the second side breaks both off.

    Raises:
        TimeoutError: Nothing came for too long.
        ExceptionGroup: A stream broke while it was read.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_s) as clock, asyncio.TaskGroup() as group:

        def touch() -> None:
            clock.reschedule(loop.time() + idle_s)

        group.create_task(_carry(one, other, touch, looks.sent if looks else _lets_go))
        group.create_task(_carry(other, one, touch, looks.received if looks else _lets_go))


async def _carry(source: Side, sink: Side, touch: Callable[[], None], look: Callable[[bytes], bytes | None]) -> None:
    data = source.conn.trailing_data[0]
    while data or (data := await source.read()):
        touch()
        part, data = data[:_LOOK], data[_LOOK:]
        if (last := look(part)) is not None:
            sink.abort()
            await _part(source, last)
            return
        try:
            await sink.write(part)
        except OSError:
            return  # it takes nothing more, but what it said before may still be on its way to the other one
        await asyncio.sleep(0)  # what has come already is read, and what can be is written, without a turn for others
    await sink.end()


def _lets_go(_: bytes) -> None:
    return None


async def _part(side: Side, last: bytes) -> None:
    """Close a side; with last words, once it has had the time to hear them: who is closed with bytes unread may lose them."""
    if last:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(_PART_S):
                await side.write(last)
                await side.end()
                while await side.read():
                    pass
    side.abort()
