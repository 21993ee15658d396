"""HTTP over a sandbox's Unix socket, for the door.

Flows in: requests of httpx2. Flows out: its responses, read piece by piece. Decided here: how much of a head is believed;
that a connection is kept for the next request only after an answer that ended in order; and that what no kernel host
sends (an interim answer, a change of protocol, a body that only the connection's end would delimit) is refused.

It is the whole way of a cell into the sandbox and out again, so what is not needed on it is left out: with httpx2's own
transport, which stands on h11 and can do all that HTTP has, a cell takes 1.1 ms more.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import httptools
import httpx2

HEAD_BYTES: Final = 64 * 1024
"""Most bytes until the head of an answer is whole, give or take one read."""
_READ_BYTES: Final = 256 * 1024
_IDLE: Final = 4
"""Most connections that wait for a next request: one for cells, and room for what is asked while one runs."""


class UnixTransport(httpx2.AsyncBaseTransport):
    """The way to one server on a Unix socket.

    Args:
        path: The socket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._all: set[_Connection] = set()
        self._idle: list[_Connection] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the response with its body still to be read.

        Raises:
            httpx2.TimeoutException: Nothing came for as long as the request says.
            httpx2.TransportError: There is no connection, it broke, or what came is no HTTP.
        """
        silence_s: float | None = request.extensions.get("timeout", {}).get("read")
        connection = await self._connection(silence_s)
        try:
            await connection.send(request, silence_s)
            await connection.read_head(silence_s)
        except BaseException:
            self._let_go(connection)
            raise
        stream = _Body(self, connection, silence_s)
        return httpx2.Response(connection.status, headers=connection.headers, stream=stream)

    async def aclose(self) -> None:
        """Close all connections."""
        for connection in list(self._all):
            self._let_go(connection)
            await connection.closed()

    async def _connection(self, silence_s: float | None) -> _Connection:
        while self._idle:
            if (connection := self._idle.pop()).is_usable and connection.is_silent:
                return connection
            self._let_go(connection)
        try:
            async with asyncio.timeout(silence_s):
                connection = _Connection(*await asyncio.open_unix_connection(self._path))
        except TimeoutError as error:
            raise httpx2.ConnectTimeout("It took no connection in time.") from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        self._all.add(connection)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """Take a connection whose answer was read, or is not to be read on."""
        if connection.is_usable and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            self._let_go(connection)

    def _let_go(self, connection: _Connection) -> None:
        self._all.discard(connection)
        connection.close()


class _Body(httpx2.AsyncByteStream):
    """A response's body; its end, or that it is left, frees the connection."""

    def __init__(self, transport: UnixTransport, connection: _Connection, silence_s: float | None) -> None:
        self._transport = transport
        self._connection: _Connection | None = connection
        self._silence_s = silence_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (connection := self._connection) is not None:
            for piece in connection.take():
                yield piece
            if connection.is_whole:
                break
            await connection.read(self._silence_s)
        await self.aclose()

    async def aclose(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._transport.give_back(connection)


class _Connection:
    """One connection, and the answer that comes over it; the parser calls the methods that begin with `on_`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._has_head = False
        self._fault = ""
        self._barren_bytes = 0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_whole = True
        """Whether the answer has come to its end."""

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self.is_whole and not self._fault and not self._reader.at_eof() and not self._writer.is_closing()

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come since the last answer, and it was not hung up; the event loop may not know yet."""
        if self._reader._buffer:  # type: ignore[attr-defined] # read already, of which nothing public tells
            return False
        looking = select.poll()
        looking.register(self._writer.get_extra_info("socket"), select.POLLIN)
        return not looking.poll(0)

    async def send(self, request: httpx2.Request, silence_s: float | None) -> None:
        self._has_head = self.is_whole = False
        self.headers, self._pieces = [], []  # an answer that was not read may have left some
        head = [b"%s %s HTTP/1.1\r\n" % (request.method.encode(), request.url.raw_path)]
        head += [b"%s: %s\r\n" % header for header in request.headers.raw]
        try:
            self._writer.write(b"".join([*head, b"\r\n", request.content]))
            async with asyncio.timeout(silence_s):
                await self._writer.drain()
        except TimeoutError as error:
            raise httpx2.WriteTimeout("It took no more of the request") from error
        except ConnectionError:  # it may have answered before it hung up
            return

    async def read_head(self, silence_s: float | None) -> None:
        while not self._has_head:
            await self.read(silence_s)
        self.status = self._parser.get_status_code()

    async def read(self, silence_s: float | None) -> None:
        """Read on."""
        try:
            async with asyncio.timeout(silence_s):
                data = await self._reader.read(_READ_BYTES)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("Nothing came in time") from error
        except OSError as error:
            raise httpx2.ReadError(str(error)) from error
        if not data:
            raise httpx2.RemoteProtocolError("It hung up before its answer was whole")
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise httpx2.RemoteProtocolError(self._fault or str(error) or type(error).__name__) from error
        # of heads, chunks' heads and trailers; the parser itself takes them without end
        self._barren_bytes = 0 if self._pieces or self.is_whole else self._barren_bytes + len(data)
        if self._barren_bytes > HEAD_BYTES:
            raise httpx2.RemoteProtocolError("It sent a head without end")

    def take(self) -> list[bytes]:
        """Return what has come of the body."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def close(self) -> None:
        self._writer.transport.abort()  # close() would first wait until the other side has taken what was written

    async def closed(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def on_message_begin(self) -> None:
        if self.is_whole:
            self._refuse("It went on after its answer was whole")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # not a trailer
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._refuse("It sent an interim answer")
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_whole = True
        if not self._parser.should_keep_alive():
            self._fault = "It is the last answer on this connection"

    def _refuse(self, fault: str) -> None:
        self._fault = fault
        raise httpx2.RemoteProtocolError(fault)
