"""What is about to leave through the egress proxy and may change something: held until somebody says that it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import h11
import pytest
from tests.sockets.test_egress_proxy import OK, Client, ask, echo, says, service
from tests.waiting import GUARD_S, until

from cellwright.egress import EgressProxy, EgressRequest
from cellwright.egress.leaving import Effect, Held


class Asked:
    """Says the same to everything; keeps what it was asked, and the connections."""

    def __init__(self, said: str | None = None) -> None:
        self.said = said
        self.effects: list[Effect] = []
        self.held: list[Held] = []
        self.may_go = asyncio.Event()
        self.may_go.set()

    async def __call__(self, effect: Effect, held: Held, *, taped: bool) -> str | None:
        assert not taped
        self.effects.append(effect)
        self.held.append(held)
        await self.may_go.wait()
        return self.said


@asynccontextmanager
async def proxy(folder: Path, allow: str, asks: Asked) -> AsyncIterator[tuple[Path, list[EgressRequest]]]:
    told: list[EgressRequest] = []
    async with EgressProxy((allow,), folder / "proxy.sock", lambda: told.append, gate=asks):
        yield folder / "proxy.sock", told


def request(method: str, port: int, *headers: str, body: str = "") -> bytes:
    head = "".join(f"{header}\r\n" for header in ("Host: x", *headers))
    return f"{method} http://127.0.0.1:{port}/order?id=7 HTTP/1.1\r\n{head}\r\n{body}".encode()


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_what_only_reads_is_not_asked_about(tmp_path: Path, method: str) -> None:
    asks = Asked("Never.")
    async with service(says(OK)) as port, proxy(tmp_path, f"127.0.0.1:{port}", asks) as (socket, _):
        assert (await ask(socket, request(method, port))).startswith(b"HTTP/1.1 200 ")
    assert asks.effects == []


@pytest.mark.parametrize(
    ("method", "headers", "is_opaque"),
    [
        ("POST", ("Content-Length: 0",), False),
        ("DELETE", (), False),
        ("PATCHWORK", (), False),
        ("GET", ("Content-Length: 4",), False),
        ("GET", ("Connection: Upgrade", "Upgrade: websocket"), True),
    ],
)
async def test_what_may_change_something_is_held_until_it_may_go(
    tmp_path: Path, method: str, headers: tuple[str, ...], is_opaque: bool
) -> None:
    asks, heard = Asked(), []  # type: ignore[var-annotated]
    asks.may_go.clear()
    async with service(says(OK, heard)) as port, proxy(tmp_path, f"127.0.0.1:{port}", asks) as (socket, _):
        asking = asyncio.ensure_future(ask(socket, request(method, port, *headers, body="")))
        await until(lambda: asks.effects)
        assert heard == []
        asks.may_go.set()
        if "Content-Length: 4" in headers:
            asking.cancel()
        else:
            assert (await asking).startswith(b"HTTP/1.1 200 ")
    assert asks.effects == [Effect(method, f"127.0.0.1:{port}", "/order?id=7", is_opaque)]


async def test_of_a_long_path_it_is_said_how_much_is_not_shown(tmp_path: Path) -> None:
    asks = Asked("No.")
    async with proxy(tmp_path, "127.0.0.1:8001", asks) as (socket, _):
        await ask(socket, f"DELETE http://127.0.0.1:8001/{'a' * 400} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    (effect,) = asks.effects
    assert f"{effect}" == f"DELETE 127.0.0.1:8001/{'a' * 299} ... and 101 characters more"


async def test_what_may_not_go_gets_the_sentence_and_nothing_is_sent(tmp_path: Path) -> None:
    asks, heard = Asked("A person denied it. Nothing was sent."), []  # type: ignore[var-annotated]
    async with service(says(OK, heard)) as port, proxy(tmp_path, f"127.0.0.1:{port}", asks) as (socket, told):
        answer = await ask(socket, request("POST", port, "Content-Length: 0"))
    assert answer.startswith(b"HTTP/1.1 403 A person denied it. Nothing was sent.\r\n")
    assert heard == []
    (outcome,) = told
    assert (outcome.allowed, outcome.reason, outcome.address) == (False, "A person denied it. Nothing was sent.", None)


async def test_a_place_that_is_not_allowed_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    asks = Asked()
    async with proxy(tmp_path, "127.0.0.1:8001", asks) as (socket, _):
        assert (await ask(socket, request("POST", 8002))).startswith(b"HTTP/1.1 403 ")
    assert asks.effects == []


async def test_a_tunnel_is_asked_about_and_can_be_ended_later(tmp_path: Path) -> None:
    asks = Asked()
    async with (
        asyncio.timeout(GUARD_S),
        service(echo) as port,
        proxy(tmp_path, f"localhost:{port}", asks) as (socket, _),
        Client(socket) as client,
    ):
        head = await client.head(f"CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert head.startswith(b"HTTP/1.1 200 ")
        asks.held[0].end_unsaid()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):  # noqa: PT012 - either may be the first to know
            client.writer.write(b"more")
            assert await client.reader.read(-1) == b""
            raise ConnectionResetError
    assert asks.effects == [Effect("CONNECT", f"localhost:{port}", "", is_opaque=True)]


async def test_a_request_that_is_still_being_sent_can_be_ended_and_one_that_has_come_goes_on(tmp_path: Path) -> None:
    asks, answers = Asked(), asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers.wait()
        writer.write(OK)
        await writer.drain()

    async with (
        asyncio.timeout(GUARD_S),
        service(slow) as port,
        proxy(tmp_path, f"127.0.0.1:{port}", asks) as (socket, _),
        Client(socket) as half,
        Client(socket) as whole,
    ):
        for client in (half, whole):
            client.writer.write(request("POST", port, "Content-Length: 4", body="ab" if client is half else "abcd"))
        await until(lambda: [one.conn.their_state for one in asks.held].count(h11.DONE) == 1)  # type: ignore[attr-defined]
        for held in asks.held:
            held.end_unsaid()
        with suppress(ConnectionError):
            assert await half.reader.read(-1) == b""
        answers.set()
        assert (await whole.reader.read(-1)).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_whoever_has_hung_up_is_seen_though_what_he_said_is_still_to_be_read(tmp_path: Path) -> None:
    asks = Asked("No.")
    asks.may_go.clear()
    async with proxy(tmp_path, "127.0.0.1:8001", asks) as (socket, _):
        async with Client(socket) as client:
            client.writer.write(request("POST", 8001, "Content-Length: 4", body="abcd"))
            await until(lambda: asks.held)
            assert not asks.held[0].has_hung_up()
        await until(asks.held[0].has_hung_up)
        asks.may_go.set()
