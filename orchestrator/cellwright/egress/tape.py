"""The world as it was: answers of a run's record in place of the network.

Flows in: requests of a sandbox, and what a run's requests were answered with. Flows out: those answers; nothing leaves this
process. Decided here: which answer belongs to which request: the first that is left of those to the same method, place and
target, one with the same body before one with a like body before any; of a request that only reads, the last answer again
once none is left. What the record has no answer to is refused by a sentence, and told.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import h11

from cellwright.counted import counted
from cellwright.egress.traffic import BODY_BYTES, Body, Gathering, Headers, Request, Room, Traffic
from cellwright.errors import CellwrightError

_CHUNK: Final = 64 * 1024
_NOT_PASSED_ON: Final = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
_WITHOUT_BODY: Final = frozenset({204, 304})
_REASON_BYTES: Final = 200
_NOT_THERE: Final = "It is not in the record."

_Place = tuple[str, str, str, int, str]
"""Scheme, method, host, port and target."""


class Tells(Protocol):
    """Who is told where a replay leaves the record."""

    def __call__(self, sentence: str, *, matters: bool) -> None:
        """Be told; it matters where something would have been changed outside."""


class Tape:
    """The answers of one run.

    Args:
        traffic: In the order of the record.
        load: Gives the bytes of a body by its hash; None when they were not kept.
        tells: Is told of what was asked for and is not there, and of what was sent otherwise.
        alike: Whether a request of the record with its body, and another body, say the same but for what may differ; it is
            asked in a thread, as `load` is, for one request at a time.
        sent: All that was told to go out; some of it may have no answer in the record, since the page did not wait for one.
    """

    def __init__(
        self,
        traffic: Iterable[Traffic],
        load: Callable[[str], bytes | None],
        tells: Tells,
        alike: Callable[[Traffic, bytes, bytes], bool] = lambda _, one, other: one == other,
        sent: Iterable[Request] = (),
    ) -> None:
        self._left: defaultdict[_Place, list[Traffic]] = defaultdict(list)
        for one in traffic:
            self._left[_place(one.request)].append(one)
        self._unanswered = Counter(map(_place, sent))
        self._unanswered.subtract({place: len(left) for place, left in self._left.items()})
        self._last: dict[_Place, Traffic] = {}
        self._load = load
        self._tells = tells
        self._alike = alike
        self._turn = asyncio.Lock()
        self._serving: set[asyncio.Task[None]] = set()  # each ends with its connection
        self.lifted = asyncio.Event()
        """Set once it answers no more."""

    @property
    def is_lifted(self) -> bool:
        """Whether it answers no more."""
        return self.lifted.is_set()

    def lift(self) -> None:
        """Answer no more, and end the connections that are open: who asks from now on is let out into the world."""
        self.lifted.set()
        for serving in self._serving:
            serving.cancel()

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection that is answered as the record says of this place.

        Raises:
            ConnectionAbortedError: It answers no more.
        """
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=far)
        if self.is_lifted:
            writer.close()
            near.close()
            raise ConnectionAbortedError("The record answers no more.")
        task = asyncio.ensure_future(self._serve(host, port, reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return await asyncio.open_connection(sock=near)

    async def answer(self, request: Request, body: Body, *, is_beacon: bool = False) -> tuple[Traffic, bytes] | str:
        """Return what a request that was made by HTTPS is answered with, or the sentence why there is nothing.

        Args:
            request: What is asked for.
            body: What it carries.
            is_beacon: Whether it may be that nobody saw such a one: then it is no difference that the record has none.
        """
        if is_beacon and not self.knows(request):
            self._tells(
                f"{request.method} {request.url} is not in the record; nobody waits for its answer.", matters=False
            )
            return _NOT_THERE
        try:
            return await self._answer(request, body)
        except (CellwrightError, ValueError) as error:
            return self._refusal(f"What the record says of {request.url} cannot be given: {error}", request)

    def knows(self, request: Request) -> bool:
        """Return whether the record has an answer to such a request, whatever its body."""
        place = _place(request)
        return bool(self._left.get(place)) or place in self._last

    async def _serve(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering = _Answering(host, port, reader, writer, self._answer)
        try:
            await answering.run()
        except h11.RemoteProtocolError:
            if answering.has_begun:
                self._tells(f"A request to {host}:{port} broke off.", matters=False)
            else:
                self._tells(
                    f"{host}:{port} was spoken to in a way that is not recorded: encrypted, usually.", matters=True
                )
        except (
            CellwrightError,
            h11.LocalProtocolError,
            ValueError,
        ) as error:  # a record that is not whole, or made by hand
            self._tells(f"What the record says of {host}:{port} cannot be given: {error}", matters=True)
        except OSError:
            pass  # who asked has gone
        finally:
            writer.close()

    async def _answer(self, request: Request, body: Body) -> tuple[Traffic, bytes] | str:
        async with self._turn:  # one at a time, in the order in which they came; bodies are read and compared meanwhile
            return await asyncio.to_thread(self._answer_to, request, body)

    def _answer_to(self, request: Request, body: Body) -> tuple[Traffic, bytes] | str:
        asked = f"{request.method} {request.url}"
        answer = self._found(request, body, asked)
        if answer is None:
            if self._unanswered[_place(request)] > 0:
                self._unanswered[_place(request)] -= 1
                return self._refusal(f"{asked} has no answer in the record.", request, is_known=True)
            return self._refusal(f"{asked} is not in the record.", request)
        self._last[_place(request)] = answer
        data = self._bytes(answer.body)
        if data is None:
            why = _why_not(answer.body)
            return self._refusal(f"The answer to {asked} was not kept: {why}.", request, is_known=True)
        return answer, data

    def _found(self, request: Request, body: Body, asked: str) -> Traffic | None:
        place = _place(request)
        left = self._left[place]
        for is_it in (
            lambda one: one.request_body.sha256 == body.sha256,
            lambda one: self._is_alike(one, body),
            lambda one: _may_be(one.request_body, body),
        ):
            for at, one in enumerate(left):
                if is_it(one):
                    return left.pop(at)
        if request.changes_nothing and place in self._last:
            return self._last[place]
        if not left:
            return None
        self._tells(f"{asked} was sent with another body than in the record.", matters=True)
        return left.pop(0)

    def _is_alike(self, one: Traffic, body: Body) -> bool:
        recorded = self._bytes(one.request_body)
        return recorded is not None and body.data is not None and self._alike(one, recorded, body.data)

    def _bytes(self, body: Body) -> bytes | None:
        if not body.sha256:
            return None
        return b"" if body.size_bytes == 0 else self._load(body.sha256)

    def _refusal(self, sentence: str, request: Request, *, is_known: bool = False) -> str:
        """Tell it; it matters where it changes something, and is not known to have been sent then."""
        self._tells(sentence, matters=not (is_known or request.changes_nothing))
        return sentence


def _place(request: Request) -> _Place:
    return request.scheme, request.method, request.host, request.port, request.target


def _may_be(one: Body, other: Body) -> bool:
    """Return whether they may be the same, though one of them nobody saw whole: of a file not even how long it is."""
    is_length_known = all(body.sha256 or body.size_bytes for body in (one, other))
    return not (one.sha256 and other.sha256) and (one.size_bytes == other.size_bytes or not is_length_known)


def _why_not(body: Body) -> str:
    if body.sha256 or body.size_bytes > BODY_BYTES:
        return f"it has {counted(body.size_bytes, 'byte')}"
    usually = "of a stream, a download or a page that was left, usually, or of what holds a secret"
    return f"of it {counted(body.size_bytes, 'byte')} had come, {usually}"


class _Answering:
    """One connection."""

    def __init__(
        self,
        host: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answer: Callable[[Request, Body], Awaitable[tuple[Traffic, bytes] | str]],
    ) -> None:
        self._place = host, port
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._conn = h11.Connection(h11.SERVER)
        self.has_begun = False
        """Whether the head of a request has come."""

    async def run(self) -> None:
        """Answer until either side closes."""
        while isinstance(event := await self._next(), h11.Request):
            self.has_begun = True
            body = Gathering(Room(BODY_BYTES))
            while isinstance(piece := await self._next(), h11.Data):
                body.add(bytes(piece.data))
            request = Request(event.method.decode("latin-1"), *self._place, event.target.decode("latin-1"), ())
            found = await self._answer(request, body.body())
            await (
                self._refuse(found) if isinstance(found, str) else self._give(*found, is_head=request.method == "HEAD")
            )
            if self._conn.our_state is not h11.DONE or self._conn.their_state is not h11.DONE:
                return
            self._conn.start_next_cycle()

    async def _give(self, answer: Traffic, data: bytes, *, is_head: bool) -> None:
        headers = [(name, value) for name, value in answer.headers if name.lower() not in _NOT_PASSED_ON]
        if answer.status not in _WITHOUT_BODY:
            length = next(
                (value for name, value in answer.headers if is_head and name.lower() == "content-length"), None
            )
            headers.append(("Content-Length", length or str(len(data))))
        await self._send(answer.status, answer.reason, tuple(headers), b"" if is_head else data)

    async def _refuse(self, sentence: str) -> None:
        text = f"{sentence}\n".encode()
        headers = (("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text))))
        await self._send(502, sentence[:_REASON_BYTES].encode("ascii", "replace").decode("ascii"), headers, text)

    async def _send(self, status: int, reason: str, headers: Headers, data: bytes) -> None:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        said = self._conn.send(h11.Response(status_code=status, reason=reason.encode("latin-1"), headers=raw)) or b""
        if data and self._conn.their_state is not h11.ERROR:
            said += self._conn.send(h11.Data(data=data)) or b""
        self._writer.write(said + (self._conn.send(h11.EndOfMessage()) or b""))
        await self._writer.drain()

    async def _next(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while (event := self._conn.next_event()) is h11.NEED_DATA:
            self._conn.receive_data(await self._reader.read(_CHUNK))
        return event
