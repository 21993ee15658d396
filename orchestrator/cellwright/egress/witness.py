"""Bytes that pass between a sandbox and the world, read as HTTP by somebody who only looks on.

Flows in: the bytes of one connection, as they go out and come in. Flows out: each request as soon as its head is whole, and
before any of it has gone out; each request with its response once that has ended. Decided here: that what cannot be read,
because it is encrypted, a WebSocket, or no HTTP/1, is not looked at any further, and is carried all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import h11

from cellwright.egress.traffic import Gathering, Headers, Request, Room, Traffic

_HEAD_BYTES: Final = 64 * 1024
_SWITCHED: Final = 101


class Hears(Protocol):
    """Who is told."""

    def request(self, request: Request) -> int | None:
        """A request is about to go out; return the number of the cell that it belongs to."""

    def response(self, traffic: Traffic, cell: int | None) -> None:
        """The response to a request of that cell has ended."""

    def unread(self, host: str, port: int) -> None:
        """Something is about to go out that cannot be read; told once for a connection."""


class Witness:
    """Looks on at one connection.

    Args:
        host: Where it leads.
        port: The same.
        hears: Who is told.
        room: What the bytes of bodies are taken from.
    """

    def __init__(self, host: str, port: int, hears: Hears, room: Room) -> None:
        self._host = host
        self._port = port
        self._hears = hears
        self._out = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)  # reads what goes out
        self._in = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)  # reads what comes in
        self._request: Request | None = None
        self._cell: int | None = None
        self._response: h11.Response | None = None
        self._room = room
        self._sent, self._came = Gathering(room), Gathering(room)
        self._waiting: int | None = None  # bytes that came behind a request whose response has not ended
        self._has_told = False
        self.understands = True
        """False once something passed that is no HTTP in clear, or more than is held of it."""

    def sent(self, data: bytes) -> None:
        """Look at bytes that are about to go out."""
        self._look(self._take_out, data)
        if not (self.understands or self._has_told):
            self._has_told = True
            self._hears.unread(self._host, self._port)

    def received(self, data: bytes) -> None:
        """Look at bytes that came in; none: nothing more will."""
        self._look(self._take_in, data)

    def _look(self, take: Callable[[bytes], None], data: bytes) -> None:
        if not self.understands:
            return
        try:
            take(data)
        except h11.ProtocolError:
            self.understands = False
        if not self.understands:
            self.close()

    def close(self) -> None:
        """Look no further, and hold nothing any more; may be called more than once."""
        self.understands = False
        for gathering in (self._sent, self._came):
            gathering.drop()
        self._out, self._in = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)  # with nothing in them

    def _take_out(self, data: bytes) -> None:
        if self._waiting is not None:
            self._waiting += len(data)  # h11 takes any number of bytes while it waits, without a word
            self.understands = self._waiting <= _HEAD_BYTES
        if data and self.understands:
            self._out.receive_data(data)
        while self.understands:
            match self._out.next_event():
                case h11.PAUSED:
                    self._waiting = len(self._out.trailing_data[0]) if self._waiting is None else self._waiting
                    return
                case h11.Request() as event:
                    self._begin(event)
                case h11.Data(data=piece):
                    self._sent.add(bytes(piece))
                case h11.EndOfMessage():
                    self._in.send(h11.EndOfMessage())
                case _:
                    return

    def _begin(self, event: h11.Request) -> None:
        method, target = event.method.decode("latin-1"), event.target.decode("latin-1")
        self._request = Request(method, self._host, self._port, target, _headers(event.headers.raw_items()))
        self._sent, self._came, self._response = Gathering(self._room), Gathering(self._room), None
        # of the other side's state only what a response means to it counts: whether it has a body, and may switch
        asks = [(name, value) for name, value in event.headers if name in {b"upgrade", b"connection", b"host"}]
        self._in.send(
            h11.Request(method=event.method, target=event.target, headers=[*asks, (b"Transfer-Encoding", b"chunked")])
        )
        self._cell = self._hears.request(self._request)

    def _take_in(self, data: bytes) -> None:
        self._in.receive_data(data)
        while self.understands:
            match self._in.next_event():
                case h11.InformationalResponse(status_code=code) if code == _SWITCHED:
                    self.understands = False
                case h11.Response() as event:
                    self._response = event
                case h11.Data(data=piece):
                    self._came.add(bytes(piece))
                case h11.EndOfMessage():
                    self._end()
                case h11.InformationalResponse():
                    continue
                case _:
                    return

    def _end(self) -> None:
        request, response = self._request, self._response
        if request is None or response is None:
            self.understands = False
            return
        self._hears.response(
            Traffic(
                request=request,
                request_body=self._sent.body(),
                status=response.status_code,
                reason=response.reason.decode("latin-1"),
                headers=_headers(response.headers.raw_items()),
                body=self._came.body(),
            ),
            self._cell,
        )
        self._sent.drop()
        self._came.drop()
        self._next()

    def _next(self) -> None:
        """Be ready for the next request of the connection, which may have come already; none comes where it was closed."""
        if self._in.our_state is not h11.DONE or self._in.their_state is not h11.DONE:
            self.understands = False  # it answered before it had heard all, or it closes
            return
        self._in.start_next_cycle()
        self._out.send(h11.Response(status_code=204, headers=[]))
        self._out.send(h11.EndOfMessage())
        if self._out.our_state is not h11.DONE:
            self.understands = False
            return
        self._out.start_next_cycle()
        self._waiting = None
        self._take_out(b"")


Watch = Callable[[str, int], Witness]
"""Makes the witness of a connection, given where it leads."""


def _headers(items: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in items)
