"""The inside's end of the only way out: loopback ports that lead to the egress proxy's Unix socket.

Flows in: the settings, and connections of whatever runs inside. Flows out: the same bytes on the proxy's socket.
Decided here: that 127.0.0.1:3128 is the proxy itself; that every allowed loopback service outside appears on the same
loopback port inside, so that everything reaches it without knowing of a proxy; which environment variables send
programs to the proxy; and that where there is no way out, this end of it says so. Browsers show nothing of what answers
a refused CONNECT, so that is also told to whoever made this, for the cell. Nothing is enforced here: whatever runs inside
may talk to the socket itself, and where there is none, nothing leads out.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Final, Self

from cellwright_kernel.asked import Asked, NotAsked, asked_for, asked_in
from cellwright_kernel.wire import Forward, HostSettings

PROXY_HOST: Final = "127.0.0.1"
PROXY_PORT: Final = 3128
PROXY_URL: Final = f"http://{PROXY_HOST}:{PROXY_PORT}"

_CHUNK: Final = 64 * 1024
_HEAD_BYTES: Final = 16 * 1024
_STATUS_CHARS: Final = 404
"""Status and reason, as long as the proxy outside makes them."""
_ANSWER_S: Final = 45.0
"""Longer than the proxy itself takes for names and connecting."""
_FIRST_WORDS_S: Final = 5.0
_REFUSED: Final = re.compile(
    rb"HTTP/1\.1 403 (?P<sentence>\[?(?P<host>[^\r\n \]]+)\]?:\d+ [^\r\n]* allow-list[^\r\n]*)\r\n"
)
"""How the egress proxy outside begins an answer that names its rule."""
_OF_BROWSER: Final = re.compile(rb"\r\nuser-agent: *mozilla/", re.IGNORECASE)
_HTTP_METHODS: Final = tuple(f"{m} ".encode() for m in "GET HEAD POST PUT PATCH DELETE OPTIONS".split())


Refused = Callable[[str, str | None], None]
"""Called with each refusal's sentence and, if a browser asked, the host that it asked for: it asks for some by itself.
In the event loop, before whoever asked hears of it."""


@dataclass(frozen=True)
class _Hearers:
    """Who is told what was refused."""

    refused: Refused
    refused_page: Callable[[str], None]
    """Called besides when it was a page without TLS: the browser shows the refusal as if it were that page, and nothing
    fails."""


def has_proxy(settings: HostSettings) -> bool:
    """Return whether something listens at `PROXY_URL`: the way out, or what says that there is none."""
    return settings.egress_socket is not None or settings.own_loopback


def proxy_environment(settings: HostSettings) -> dict[str, str]:
    """Return the variables that send programs to the proxy; none where nothing listens there."""
    if not has_proxy(settings):
        return {}
    both = {f"{scheme}_proxy": PROXY_URL for scheme in ("http", "https", "all")}
    both["no_proxy"] = "localhost,sandbox,127.0.0.1,0.0.0.0,::1"  # everything by which a cell calls a server of its own
    # curl reads http_proxy in lower case only, others in upper case only; Node's fetch wants to be told to look
    return both | {name.upper(): value for name, value in both.items()} | {"NODE_USE_ENV_PROXY": "1"}


class Forwarder:
    """Every listener of the way out. Use it with `async with`; where there is no proxy it does nothing."""

    def __init__(
        self,
        settings: HostSettings,
        refused: Refused = lambda _sentence, _host: None,
        refused_page: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._has_proxy = has_proxy(settings)
        self._socket = settings.egress_socket
        self._hearers = _Hearers(refused, refused_page)
        self._forwards = settings.forwards
        self._running: asyncio.Task[None] | None = None
        self.problems: tuple[str, ...] = ()
        """Ports that could not be listened on, each a sentence; known once it is entered."""

    async def __aenter__(self) -> Self:
        if not self._has_proxy:
            return self
        listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.ensure_future(self._serve(listening))  # its end is awaited in __aexit__
        try:
            await asyncio.wait({listening, self._running}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        if self._running.done():
            await self._running
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
            self._running = None

    async def _serve(self, listening: asyncio.Future[None]) -> None:
        servers: list[asyncio.Server] = []
        async with asyncio.TaskGroup() as group:
            try:
                self.problems = await self._listen(group, servers)
                listening.set_result(None)
                await asyncio.get_running_loop().create_future()
            finally:
                for server in servers:
                    server.close()  # not waited for: from Python 3.12 on it would wait for connections the group ends next

    async def _listen(self, group: asyncio.TaskGroup, servers: list[asyncio.Server]) -> tuple[str, ...]:
        """Listen at every entrance; return where that failed, each a sentence."""
        problems: list[str] = []
        for entrance in _entrances(self._forwards):
            try:
                servers.append(await _open(entrance, self._serving(entrance.target), group))
            except OSError as error:
                if entrance.needed:
                    problems.append(_not_listening(entrance, error))
        return tuple(problems)

    def _serving(self, target: Forward | None) -> _Serve:
        if self._socket is None:
            return partial(_refuse, hearers=self._hearers)
        return partial(_connection, socket=self._socket, target=target, hearers=self._hearers)


@dataclass(frozen=True)
class _Entrance:
    """One port to listen on."""

    address: str
    port: int
    target: Forward | None
    """Where it leads; None: to the proxy itself."""
    needed: bool
    """False for an address of the other family, which there may be none of."""


class _Stream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def abort(self) -> None:
        self.writer.transport.abort()

    async def closed(self) -> None:
        try:
            async with asyncio.timeout(_FIRST_WORDS_S):
                await self.writer.wait_closed()
        except OSError:  # it broke, or took too long
            self.abort()


def _entrances(forwards: tuple[Forward, ...]) -> Iterator[_Entrance]:
    """Say where to listen: each service at its own address first, then at the other family's where that is free."""
    yield _Entrance(PROXY_HOST, PROXY_PORT, None, needed=True)
    taken = set()
    for needed in (True, False):
        for forward in forwards:
            own = _own_address(forward.host)
            address = own if needed else ("127.0.0.1" if ":" in own else "::1")
            if (address, forward.port) not in taken:
                taken.add((address, forward.port))
                yield _Entrance(address, forward.port, forward, needed)


_Serve = Callable[[_Stream], Coroutine[None, None, None]]
"""Sees a connection through to its end."""


async def _open(entrance: _Entrance, serve: _Serve, group: asyncio.TaskGroup) -> asyncio.Server:
    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if server.is_serving():
            group.create_task(serve(_Stream(reader, writer)))
        else:
            writer.transport.abort()

    server = await asyncio.start_server(accept, entrance.address, entrance.port, start_serving=False)
    await server.start_serving()
    return server


def _own_address(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return "127.0.0.1"  # localhost


async def _refuse(client: _Stream, hearers: _Hearers) -> None:
    """Answer a request as the egress proxy outside would, whose allow-list is empty."""
    try:
        try:
            if (asked := await asked_for(client.reader)) is None:
                return
        except NotAsked as error:
            await _tell(client, str(error), None, status=f"{error.status} {error}")
            return
        sentence = f"{_not_allowed(asked)}; it allows nothing."
        hearers.refused(sentence, asked.host if asked.is_of_browser else None)
        if asked.is_page and asked.method != "CONNECT":
            hearers.refused_page(sentence)
        await _tell(client, sentence, None, status=f"403 {sentence}", has_body=asked.method != "HEAD")
    except OSError:
        client.abort()
    finally:
        client.writer.close()
        await client.closed()


def _not_allowed(asked: Asked) -> str:
    return (
        f"{asked.where} is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
        "`--allow HOST[:PORT]`"
    )


async def _connection(client: _Stream, socket: str, target: Forward | None, hearers: _Hearers) -> None:
    proxy: _Stream | None = None
    try:
        proxy = _Stream(*await asyncio.open_unix_connection(socket, limit=_HEAD_BYTES))
        refusal = None if target is None else await _ask_for(proxy, target)
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        refusal = f"The egress proxy outside does not answer: {error}. The sandbox has no network any more."
    try:
        if proxy is None or refusal is not None:
            await _tell(client, refusal or "", target)
        else:
            await _relay(client, proxy, hearers if target is None else None)
    except* OSError:
        client.abort()
    finally:
        streams = [stream for stream in (client, proxy) if stream is not None]
        for stream in streams:
            stream.writer.close()
        await asyncio.gather(*(stream.closed() for stream in streams))


async def _ask_for(proxy: _Stream, target: Forward) -> str | None:
    """Have the proxy connect to the service; return the sentence with which it refused, or None."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    where = f"{host}:{target.port}"
    proxy.writer.write(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
    await proxy.writer.drain()
    async with asyncio.timeout(_ANSWER_S):
        head = await proxy.reader.readuntil(b"\r\n\r\n")
    status, _, reason = head.partition(b"\r\n")[0].decode("ascii", "replace").partition(" ")[2].partition(" ")
    return None if status == "200" else reason or f"The egress proxy answered {status}."


async def _tell(
    client: _Stream, sentence: str, target: Forward | None, *, status: str = "502 Bad Gateway", has_body: bool = True
) -> None:
    """Tell a client that speaks HTTP why; break off from any other, which is what no service there looks like."""
    if target is not None:
        async with asyncio.timeout(_FIRST_WORDS_S):
            words = await client.reader.read(_CHUNK)
        if not words.startswith(_HTTP_METHODS):
            client.abort()
            return
    body = f"{sentence}\n".encode()
    if len(status) > _STATUS_CHARS:
        status = status[: _STATUS_CHARS - 3] + "..."
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    client.writer.write(head.encode("ascii", "replace") + (body if has_body else b""))
    client.writer.write_eof()
    async with asyncio.timeout(_FIRST_WORDS_S):
        while await client.reader.read(_CHUNK):  # closing on unread bytes would take the answer back
            pass


async def _relay(client: _Stream, proxy: _Stream, hearers: _Hearers | None) -> None:
    """Carry both ways; `hearers` are told if the proxy refuses the first request."""
    asked = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        group.create_task(_carry(client, proxy, asked.set_result))
        group.create_task(_carry(proxy, client, partial(_hear, asked, hearers)))


async def _carry(source: _Stream, sink: _Stream, first: Callable[[bytes], None]) -> None:
    """Carry one way to its end; `first` gets the first bytes, before they are passed on."""
    takes, is_first = True, True
    while data := await source.reader.read(_CHUNK):
        if is_first:
            first(data)
            is_first = False
        if takes:
            try:
                sink.writer.write(data)
                await sink.writer.drain()
            except OSError:
                takes = False  # but what it said before is on its way, and closing on unread bytes would lose that
    with contextlib.suppress(OSError):
        sink.writer.write_eof()


def _hear(asked: asyncio.Future[bytes], hearers: _Hearers | None, answer: bytes) -> None:
    """Tell of a refusal.

    Only what answers a CONNECT is the proxy's own word. Any other request may be answered by a site, which can say
    anything: of that, no word is told on, and only that what was asked for is refused.
    """
    head = asked.result() if asked.done() else b""
    if hearers is None:
        return
    if head.startswith(b"CONNECT "):
        if refusal := _REFUSED.match(answer):
            host = refusal["host"].decode("ascii", "replace") if _OF_BROWSER.search(head) else None
            hearers.refused(refusal["sentence"].decode("ascii", "replace"), host)
    elif answer.startswith(b"HTTP/1.1 403 ") and (asked_of := asked_in(head)) is not None:
        sentence = _not_allowed(asked_of)
        if answer.startswith(f"HTTP/1.1 403 {sentence}; ".encode()):
            hearers.refused(f"{sentence}.", asked_of.host if asked_of.is_of_browser else None)
            if asked_of.is_page:
                hearers.refused_page(f"{sentence}.")


def _not_listening(entrance: _Entrance, error: OSError) -> str:
    return f"Nothing can listen on {entrance.address}:{entrance.port} inside: {error.strerror}. That way out is closed."
