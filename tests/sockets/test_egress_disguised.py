"""Requests that are written as no client writes them, and as servers read them all the same: no placeholder arrives by them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.sockets.test_egress_packed import HANDSHAKE, Echoing, frames
from tests.sockets.test_egress_proxy import Client, service
from tests.sockets.test_egress_secrets import proxy, tunnel
from tests.waiting import GUARD_S
from websockets.frames import Opcode

from cellwright.egress import EgressRequest, Timeouts

Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PACKED = "POST {at} HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {size}\r\n\r\n"
BEGINNINGS = {
    "as it should be": "POST / HTTP/1.1",
    "after an empty line": "\r\nPOST / HTTP/1.1",
    "after a space": " POST / HTTP/1.1",
    "in small letters": "post / HTTP/1.1",
    "a method of its own": "My-Post1 / HTTP/1.1",
    "a short method": "P / HTTP/1.1",
    "a long method": f"{'P' * 30} / HTTP/1.1",
    "a long method in small letters": f"{'p' * 30} / HTTP/1.1",
    "a long address": f"post /{'a' * 9000} HTTP/1.1",
    "with tabs": "post\t/\tHTTP/1.1",
}


class Taking:
    """A server that takes any request, and keeps what it was sent."""

    def __init__(self) -> None:
        self.heard = b""

    async def __call__(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.heard += data


async def tell(client: Client, *pieces: bytes) -> None:
    """Send pieces, each by itself, until the other side has had enough."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            client.writer.write(piece)
            await client.writer.drain()
            await asyncio.sleep(0.0005)
        await client.reader.read(-1)


@dataclass(frozen=True)
class Met:
    """A client of a proxy, and what it may say to a server behind it."""

    client: Client
    url: str
    handshake: str
    """For a WebSocket."""
    message: bytes
    """One of a WebSocket, with a placeholder in it."""
    told: Sequence[EgressRequest]


@asynccontextmanager
async def meeting(folder: Path, server: Server) -> AsyncIterator[Met]:
    async with (
        asyncio.timeout(GUARD_S),
        service(server) as port,
        proxy(folder, port) as (socket, placeholder, told),
        Client(socket) as client,
    ):
        url = f"http://127.0.0.1:{port}/"
        message = frames((Opcode.TEXT, placeholder.encode(), True))
        yield Met(client, url, HANDSHAKE.format(at=url, key="none"), message, told)


@pytest.mark.parametrize("size", [7, 100_000])
@pytest.mark.parametrize("how", list(BEGINNINGS))
async def test_a_compressed_body_within_a_tunnel_is_opened_however_its_request_begins(
    tmp_path: Path, how: str, size: int
) -> None:
    there = Taking()
    async with (
        service(there) as port,
        proxy(tmp_path, port) as (socket, placeholder, told),
        tunnel(socket, port) as client,
    ):
        body = gzip.compress(f"key={placeholder}".encode())
        head = PACKED.format(at="/", size=len(body)).replace("POST / HTTP/1.1", BEGINNINGS[how])
        sent = head.encode() + body
        await tell(client, *(sent[at : at + size] for at in range(0, len(sent), size)))
    assert body not in there.heard
    assert [one.reason == f"127.0.0.1:{port}" for one in told] == [False], "it says why"


@pytest.mark.parametrize("first", ["P", "p", "post / HTT"])
async def test_a_request_whose_beginning_takes_long_is_no_way_out(tmp_path: Path, first: str) -> None:
    there = Taking()
    async with (
        service(there) as port,
        proxy(tmp_path, port, timeouts=Timeouts(head_s=0.2)) as (socket, placeholder, told),
        tunnel(socket, port) as client,
    ):
        body = gzip.compress(f"key={placeholder}".encode())
        sent = PACKED.format(at="/", size=len(body)).encode() + body
        sent = sent if first == "P" else sent.replace(b"POST", b"post")
        client.writer.write(sent[: len(first)])
        await asyncio.sleep(0.6)  # the client is silent beyond `head_s`
        await tell(client, sent[len(first) :])
    assert body not in there.heard
    assert [one.allowed for one in told] == [False]


async def test_a_handshake_has_no_body_that_could_be_messages(tmp_path: Path) -> None:
    there = Echoing()
    async with meeting(tmp_path, there) as met:
        asked = met.handshake[:-2] + f"Content-Length: {len(met.message) + 1}\r\n\r\n"
        await tell(met.client, asked.encode() + met.message)
    assert met.message not in there.heard
    assert [one.allowed for one in met.told] == [False]


async def test_what_was_sent_before_both_sides_had_agreed_is_read_as_messages(tmp_path: Path) -> None:
    there = Echoing()
    async with meeting(tmp_path, there) as met:
        met.client.writer.write(met.handshake.encode() + met.message)
        await met.client.reader.read(-1)
    assert there.heard == b""
    assert [one.allowed for one in met.told] == [False]


@pytest.mark.parametrize("asked", ["websocket/13", '"websocket"', "other"])
async def test_what_the_server_takes_for_a_websocket_is_one(tmp_path: Path, asked: str) -> None:
    there = Echoing()
    async with meeting(tmp_path, there) as met:
        handshake = met.handshake.replace("Upgrade: WebSocket", f"Upgrade: {asked}")
        await met.client.head(handshake.encode())
        await tell(met.client, met.message)
    assert there.heard == b""
    assert [one.allowed for one in met.told] == [False]


@pytest.mark.parametrize("status", ["200 OK", "426 Upgrade Required"])
async def test_nothing_goes_on_where_an_upgrade_is_refused(tmp_path: Path, status: str) -> None:
    heard: list[bytes] = []

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno".encode())
        heard.append(await reader.read(-1))

    async with meeting(tmp_path, refuses) as met:
        met.client.writer.write(met.handshake.encode() + met.message)
        assert (await met.client.reader.read(-1)).endswith(b"no")
    assert heard in ([], [b""])


async def test_a_server_that_switches_unasked_gets_nothing_more(tmp_path: Path) -> None:
    there = Echoing()
    async with meeting(tmp_path, there) as met:
        met.client.writer.write(f"GET {met.url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        met.client.writer.write(met.message)
        assert (await met.client.reader.read(-1)).startswith(b"HTTP/1.1 502 ")
    assert there.heard == b""


@pytest.mark.parametrize(
    "said",
    [
        b"ping",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"get key\r\n",
        b"0032git-upload-pack /a\0host=x\0",
        b"\x16\x03\x01hello",
    ],
)
async def test_what_is_no_request_goes_on_at_once(tmp_path: Path, said: bytes) -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(len(said)))

    async with (
        service(answers) as port,
        proxy(tmp_path, port) as (socket, _, told),
        tunnel(socket, port) as client,
        asyncio.timeout(5),
    ):
        client.writer.write(said)
        assert await client.reader.readexactly(len(said)) == said
    assert [one.allowed for one in told] == [True]


@pytest.mark.parametrize("how", ["a body", "messages"])
async def test_a_flood_of_the_smallest_pieces_leaves_others_their_turn(tmp_path: Path, how: str) -> None:
    turns, before = [0.0], time.thread_time()
    async with service(Echoing() if how == "messages" else Taking()) as port, proxy(tmp_path, port) as (socket, _, _):
        at = f"http://127.0.0.1:{port}/"
        body = f"POST {at} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + b"1\r\nx\r\n" * 20_000
        messages = HANDSHAKE.format(at=at, key="none").encode() + b"\x82\x00" * 200_000
        async with Client(socket) as client:
            client.writer.write(messages if how == "messages" else body)
            sending = asyncio.ensure_future(client.writer.drain())
            for _ in range(20_000):
                await asyncio.sleep(0)
                now = time.thread_time()
                turns.append(now - before)
                before = now
            await sending
    assert max(turns) < 0.1, "once it took 0.25 s and more"
