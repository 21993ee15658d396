from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from ssl import SSLContext

import pytest
from tests.waiting import GUARD_S

from cellwright.egress import EgressProxy, EgressRequest, Timeouts
from cellwright.egress.rules import Address

NO_NAMES: Mapping[str, list[str]] = {}
Service = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def service(serve: Service, tls: SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a loopback port of its own; the port. Every connection is closed when it has been served."""
    serving: set[asyncio.Task[None]] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(connection(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def says(response: bytes, heard: list[bytes] | None = None) -> Service:
    """A service that reads one head and answers with these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(response)
        await writer.drain()

    return serve


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write(b"<end>")
    await writer.drain()


class Client:
    """What is inside: bytes to the proxy's socket, bytes back."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def __aenter__(self) -> Client:
        self.reader, self.writer = await asyncio.open_unix_connection(self._socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def head(self, request: bytes) -> bytes:
        self.writer.write(request)
        return await self.reader.readuntil(b"\r\n\r\n")


async def ask(socket: Path, request: bytes) -> bytes:
    async with asyncio.timeout(GUARD_S), Client(socket) as client:
        client.writer.write(request)
        return await client.reader.read(-1)


@asynccontextmanager
async def proxy(
    folder: Path, *allow: str, timeouts: Timeouts | None = None, names: Mapping[str, list[str]] = NO_NAMES
) -> AsyncIterator[tuple[Path, list[EgressRequest]]]:
    """A proxy that knows the names `names` and no others; its socket, and what it tells."""
    told: list[EgressRequest] = []

    async def resolve(host: str, _: int) -> list[Address]:
        addresses = names.get(host)
        if addresses is None:
            raise OSError(-2, "Name or service not known")
        return [ip_address(address) for address in addresses]

    socket = folder / f"p{next(_NUMBERS)}"
    async with EgressProxy(allow, socket, lambda: told.append, timeouts=timeouts, resolve=resolve):
        yield socket, told
    assert not socket.exists()


_NUMBERS = itertools.count()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


async def test_a_plain_request_reaches_an_allowed_service(tmp_path: Path) -> None:
    heard: list[bytes] = []
    async with service(says(OK, heard)) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, told):
        answer = await ask(
            socket,
            f"GET http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: elsewhere.example\r\nProxy-Connection: keep-alive\r\n"
            "Proxy-Authorization: Basic eDp5\r\nConnection: X-Private\r\nX-Private: 1\r\nX-Kept: 2\r\n\r\n".encode(),
        )
        assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
        assert heard == [
            f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Kept: 2\r\nConnection: close\r\n\r\n".encode()
        ]
    (request,) = told
    assert (request.method, request.host, request.port) == ("GET", "127.0.0.1", port)
    assert (request.allowed, request.reason, request.address) == (True, f"127.0.0.1:{port}", "127.0.0.1")
    assert (request.sent_bytes, request.received_bytes) == (len(heard[0]), len(OK))


async def test_connect_carries_bytes_both_ways_and_their_ends(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(GUARD_S),
        service(echo) as port,
        proxy(tmp_path, f"localhost:{port}") as (socket, told),
        Client(socket) as client,
    ):
        head = await client.head(f"CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\nat once, ".encode())
        assert head.startswith(b"HTTP/1.1 200 ")
        client.writer.write(bytes(range(256)))
        client.writer.write_eof()
        assert await client.reader.read(-1) == b"at once, " + bytes(range(256)) + b"<end>"
    (request,) = told
    assert (request.method, request.allowed, request.sent_bytes, request.received_bytes) == ("CONNECT", True, 265, 270)


async def test_a_large_answer_comes_whole_through_a_slow_reader(tmp_path: Path) -> None:
    body = bytes(5_000_000)
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + body
    async with service(says(response)) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, _):
        answer = await ask(socket, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answer.partition(b"\r\n\r\n")[2] == body


async def test_bodies_of_both_kinds_are_carried(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")

    async with service(serve) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, _):
        answer = await ask(
            socket,
            f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n"
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".encode(),
        )
    assert heard[0].endswith(b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    assert b"Content-Length" not in heard[0]
    assert answer.endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")


async def test_an_early_answer_counts_although_the_body_was_not_read(tmp_path: Path) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"
    async with service(says(refusal)) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, _):
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n".encode()
        assert (await ask(socket, head + bytes(100))).startswith(b"HTTP/1.1 413 ")


async def test_an_upgrade_becomes_a_tunnel(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Upgrade: websocket" in head
        assert b"Connection: Upgrade" in head
        writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst,")
        await echo(reader, writer)

    async with (
        asyncio.timeout(GUARD_S),
        service(serve) as port,
        proxy(tmp_path, f"127.0.0.1:{port}") as (socket, _),
        Client(socket) as client,
    ):
        head = await client.head(
            f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
            "Upgrade: websocket\r\n\r\n".encode()
        )
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"Upgrade: websocket\r\n" in head
        client.writer.write(b"\x00\xff")
        client.writer.write_eof()
        assert await client.reader.read(-1) == b"first,\x00\xff<end>"


@pytest.mark.parametrize(
    ("request_line", "host", "sentence"),
    [
        (
            "GET http://other.example/x HTTP/1.1",
            "other.example",
            "other.example:80 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
            "`--allow HOST[:PORT]`; it allows *.example.org, 10.0.0.1:80.",
        ),
        (
            "CONNECT 169.254.169.254:80 HTTP/1.1",
            "169.254.169.254",
            "169.254.169.254:80 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
            "`--allow HOST[:PORT]`; it allows *.example.org, 10.0.0.1:80.",
        ),
        (
            "CONNECT in.example.org:443 HTTP/1.1",
            "in.example.org",
            "in.example.org:443 leads to 127.0.0.1, which is not a public address; the allow-list's entry *.example.org "
            "does not open it. Only an entry that names this address does.",
        ),
        (
            "CONNECT mapped.example.org:443 HTTP/1.1",
            "mapped.example.org",
            "mapped.example.org:443 leads to 10.0.0.1, which is not a public address; the allow-list's entry "
            "*.example.org does not open it. Only an entry that names this address does.",
        ),
    ],
)
async def test_a_refusal_names_the_rule(tmp_path: Path, request_line: str, host: str, sentence: str) -> None:
    names = {"in.example.org": ["127.0.0.1"], "mapped.example.org": ["::ffff:10.0.0.1"]}
    async with proxy(tmp_path, "*.example.org", "10.0.0.1:80", names=names) as (socket, told):
        answer = await ask(socket, f"{request_line}\r\nHost: x\r\n\r\n".encode())
        assert answer.startswith(f"HTTP/1.1 403 {sentence}\r\n".encode())
        assert answer.endswith(f"\r\n\r\n{sentence}\n".encode())
    assert [(r.host, r.allowed, r.reason, r.address, r.sent_bytes) for r in told] == [(host, False, sentence, None, 0)]


async def test_a_name_may_lead_to_an_address_that_has_its_own_entry(tmp_path: Path) -> None:
    names = {"app.example.org": ["10.0.0.1", "127.0.0.1"]}
    async with service(says(OK)) as port:
        allow = (f"app.example.org:{port}", f"127.0.0.1:{port}")
        async with proxy(tmp_path, *allow, names=names) as (socket, told):
            assert (await ask(socket, f"GET http://app.example.org:{port}/ HTTP/1.0\r\n\r\n".encode())).endswith(
                OK[-5:]
            )
    assert (told[0].reason, told[0].address) == (f"app.example.org:{port}", "127.0.0.1")


async def test_a_name_that_changes_its_address_is_asked_once(tmp_path: Path) -> None:
    asked: list[str] = []

    async def rebinding(host: str, _: int) -> list[Address]:
        asked.append(host)
        return [ip_address("203.0.113.9" if len(asked) > 1 else "127.0.0.1")]

    async with service(says(OK)) as port:
        allow = (f"app.example.org:{port}", f"127.0.0.1:{port}")
        async with EgressProxy(allow, tmp_path / "p", resolve=rebinding):
            answer = await ask(tmp_path / "p", f"GET http://app.example.org:{port}/ HTTP/1.0\r\n\r\n".encode())
            assert answer.endswith(b"hello")
    assert asked == ["app.example.org"]


async def test_what_does_not_answer_is_said(tmp_path: Path) -> None:
    async with service(echo) as port:
        pass
    async with proxy(tmp_path, f"127.0.0.1:{port}", "*.example.org") as (socket, told):
        answer = await ask(socket, f"CONNECT 127.0.0.1:{port} HTTP/1.0\r\n\r\n".encode())
        refused = f"127.0.0.1:{port} did not answer: the connection was refused; usually nothing listens there."
        assert answer.startswith(f"HTTP/1.1 502 {refused}\r\n".encode())
        answer = await ask(socket, b"GET http://no.example.org/ HTTP/1.0\r\n\r\n")
        unknown = "The name no.example.org could not be resolved: Name or service not known."
        assert answer.startswith(f"HTTP/1.1 502 {unknown}\r\n".encode())
    assert [(r.allowed, r.reason) for r in told] == [(True, refused), (False, unknown)]


@pytest.mark.parametrize(
    ("garbage", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET https://example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET http://a@example.org/ HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"CONNECT example.org HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"CONNECT example.org:99999 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET http://example.org/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
        (b"GET http://example.org/ HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000, b"431"),
        (b"\0" * 40_000, b"4"),
    ],
)
async def test_garbage_is_answered_and_the_next_one_served(tmp_path: Path, garbage: bytes, status: bytes) -> None:
    async with service(says(OK)) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, told):
        assert (await ask(socket, garbage)).startswith(b"HTTP/1.1 " + status)
        assert (await ask(socket, f"GET http://127.0.0.1:{port}/ HTTP/1.0\r\n\r\n".encode())).endswith(b"hello")
    assert [request.host for request in told] == ["127.0.0.1"]


@pytest.mark.parametrize("response", [b"no HTTP at all\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40_000])
async def test_a_service_that_speaks_no_http_gives_502(tmp_path: Path, response: bytes) -> None:
    async with service(says(response)) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, told):
        answer = await ask(socket, f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 502 The response was cut off or is no HTTP")
    assert told[0].allowed


async def test_a_slow_head_and_an_idle_tunnel_end(tmp_path: Path) -> None:
    timeouts = Timeouts(head_s=0.05, idle_s=0.05)
    async with service(echo) as port, proxy(tmp_path, f"127.0.0.1:{port}", timeouts=timeouts) as (socket, told):
        assert (await ask(socket, b"GET http://")).startswith(b"HTTP/1.1 408 No whole request came within 0.05 s.")
        answer = await ask(socket, f"CONNECT 127.0.0.1:{port} HTTP/1.0\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 200 ")
    assert [request.method for request in told] == ["CONNECT"]


@pytest.mark.slow
async def test_many_connections_at_once_are_served_and_too_many_are_cut(tmp_path: Path) -> None:
    async with service(echo) as port, proxy(tmp_path, f"127.0.0.1:{port}") as (socket, told):
        async with asyncio.timeout(GUARD_S):
            clients = [await Client(socket).__aenter__() for _ in range(300)]
            connect = f"CONNECT 127.0.0.1:{port} HTTP/1.0\r\n\r\n".encode()
            heads = await asyncio.gather(*(client.head(connect) for client in clients), return_exceptions=True)
            assert sum(isinstance(head, bytes) and head.startswith(b"HTTP/1.1 200") for head in heads) == 256
            await asyncio.gather(*(client.__aexit__() for client in clients))
            while len(told) < 256:  # noqa: ASYNC110 - the callback is not async
                await asyncio.sleep(0.01)
            assert (await ask(socket, b"nothing\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_closing_ends_every_connection(tmp_path: Path) -> None:
    async with service(echo) as port:
        async with proxy(tmp_path, f"127.0.0.1:{port}") as (socket, told), asyncio.timeout(GUARD_S):
            client = await Client(socket).__aenter__()
            await client.head(f"CONNECT 127.0.0.1:{port} HTTP/1.0\r\n\r\n".encode())
        assert await client.reader.read(-1) == b""
        await client.__aexit__()
    assert [(request.method, request.allowed) for request in told] == [("CONNECT", True)]


async def test_a_record_that_cannot_be_written_does_not_end_the_proxy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: EgressRequest) -> None:
        raise OSError(28, "No space left on device")

    async with EgressProxy(["example.org"], tmp_path / "p", lambda: full):
        for _ in range(2):
            assert (await ask(tmp_path / "p", b"GET http://x.example/ HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
    assert "could not be recorded" in caplog.text


async def test_a_socket_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with EgressProxy([], tmp_path / "missing" / "p"):
            pass
