"""A placeholder that the sandbox has compressed or masked is refused as one in clear is: it arrives nowhere, and whoever sent it is told."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sockets.test_egress_proxy import Client, ask, echo, says, service
from tests.sockets.test_egress_secrets import OK, VALUE, proxy, request, tunnel
from tests.waiting import GUARD_S
from websockets.frames import Close, Frame, Opcode

from cellwright.egress import EgressProxy, EgressRequest

HANDSHAKE = (
    "GET {at} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nX-Key: {key}\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


async def test_a_compressed_body_is_refused_and_not_sent_whole(tmp_path: Path) -> None:
    heard: list[bytes] = []
    async with service(says(OK, heard)) as port, proxy(tmp_path, port) as (socket, placeholder, told):
        body = gzip.compress(f"key={placeholder}".encode())
        answer = (await ask(socket, request(port, "Content-Encoding: gzip", body=body))).decode()
        closed = (await ask(socket, request(port, "Content-Encoding: br", body=b"any"))).decode()
        fine = await ask(socket, request(port, "Content-Encoding: gzip", body=gzip.compress(b"hello")))
    assert answer.startswith("HTTP/1.1 403 ")
    assert "What stands for the secret KEY stood in the body of a request" in answer
    assert closed.startswith("HTTP/1.1 403 ")
    assert "is compressed by br, so that it cannot be looked through" in closed
    assert fine.startswith(b"HTTP/1.1 200")
    assert [(one.allowed, one.secrets) for one in told] == [(False, ("KEY",)), (False, ()), (True, ())]


async def test_without_secrets_a_body_is_carried_however_it_is_compressed(tmp_path: Path) -> None:
    async with (
        service(says(OK)) as port,
        EgressProxy((f"127.0.0.1:{port}",), tmp_path / "none"),
    ):
        answer = await ask(tmp_path / "none", request(port, "Content-Encoding: br", body=b"any"))
    assert answer.startswith(b"HTTP/1.1 200")


class Echoing:
    """A service that agrees to a WebSocket and says back what it is sent, byte for byte."""

    def __init__(self) -> None:
        self.head = b""
        self.heard = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED)
        while data := await reader.read(65536):
            self.heard += data
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def websocket(
    folder: Path, way: str, *, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[Client, str, Echoing, list[EgressRequest]]]:
    """A WebSocket through the proxy, open; asked for by a URL, or within a tunnel as browsers do."""
    there = Echoing()
    async with service(there) as port, proxy(folder, port) as (socket, placeholder, told), asyncio.timeout(GUARD_S):
        if way == "url":
            async with Client(socket) as client:
                key = placeholder if host == "127.0.0.1" else "none"
                assert b"101" in await client.head(HANDSHAKE.format(at=f"http://{host}:{port}/", key=key).encode())
                yield client, placeholder, there, told
        else:
            async with tunnel(socket, port) as client:
                assert b"101" in await client.head(HANDSHAKE.format(at="/", key=placeholder).encode())
                yield client, placeholder, there, told


@pytest.mark.parametrize("way", ["url", "tunnel"])
async def test_messages_pass_and_nothing_is_offered_to_compress_them(tmp_path: Path, way: str) -> None:
    frame = Frame(Opcode.TEXT, b"hello").serialize(mask=True)
    async with websocket(tmp_path, way) as (client, _, there, told):
        client.writer.write(frame)
        assert await client.reader.readexactly(len(frame)) == frame
    assert b"Sec-WebSocket-Extensions" not in there.head
    assert f"X-Key: {VALUE}".encode() in there.head.split(b"\r\n")
    assert [(one.allowed, one.secrets) for one in told] == [(True, ("KEY",))]


def frames(*said: tuple[Opcode, bytes, bool]) -> bytes:
    return b"".join(Frame(code, data, fin=fin).serialize(mask=True) for code, data, fin in said)


def packed(placeholder: bytes) -> dict[str, bytes]:
    """Ways to send a placeholder, and what is sent."""
    half = len(placeholder) // 2
    parts = placeholder[:half], placeholder[half:]
    return {
        "text": frames((Opcode.TEXT, b"key=" + placeholder, True)),
        "another spelling": frames((Opcode.TEXT, placeholder.upper(), True)),
        "long": frames((Opcode.BINARY, bytes(6000) + placeholder + bytes(6000), True)),
        "two parts": frames((Opcode.TEXT, parts[0], False), (Opcode.CONT, parts[1], True)),
        "a ping between": frames(
            (Opcode.TEXT, parts[0], False), (Opcode.PING, b"here", True), (Opcode.CONT, parts[1], True)
        ),
        "a ping": frames((Opcode.PING, placeholder, True)),
        "a close": frames((Opcode.CLOSE, b"\x03\xe8" + placeholder, True)),
        "without a mask": Frame(Opcode.TEXT, placeholder).serialize(mask=False),
    }


@pytest.mark.parametrize("way", ["url", "tunnel"])
@pytest.mark.parametrize("how", list(packed(b"")))
async def test_a_placeholder_in_a_message_ends_the_connection_with_a_reason(tmp_path: Path, how: str, way: str) -> None:
    async with websocket(tmp_path, way) as (client, placeholder, there, told):
        client.writer.write(frames((Opcode.TEXT, b"before", True)))
        await client.reader.readexactly(12)
        client.writer.write(packed(placeholder.encode())[how])
        rest = await client.reader.read(-1)
        code, reason = ended(rest)
        client.writer.close()
    assert (code, reason) == (
        1008,
        "What stands for secret KEY belongs into a header, not a message. It was not sent.",
    )
    assert len(there.heard) < 12 + 200_000, "what had it has not gone out whole"
    assert [(one.allowed, one.secrets) for one in told] == [(False, ("KEY",))]
    where = "what was sent without encryption" if how == "without a mask" else "a WebSocket's message"
    assert f"What stands for the secret KEY stood in {where} of a request to 127.0.0.1:" in str(told[0].reason)


async def test_a_message_that_has_begun_to_go_out_is_broken_off_at_a_placeholder(tmp_path: Path) -> None:
    async with websocket(tmp_path, "url") as (client, placeholder, there, told):
        client.writer.write(frames((Opcode.BINARY, bytes(100_000) + placeholder.encode() + bytes(100_000), True)))
        await client.reader.read(-1)
        client.writer.close()
    assert len(there.heard) < 100_000 + len(placeholder)
    assert [(one.allowed, one.secrets) for one in told] == [(False, ("KEY",))]


def ended(rest: bytes) -> tuple[int, str]:
    """What the last frame says; those before it are echoes."""
    at = rest.rindex(b"\x88")
    said = Close.parse(rest[at + 2 :])
    return int(said.code), said.reason


async def test_a_message_that_says_it_is_compressed_ends_the_connection(tmp_path: Path) -> None:
    async with websocket(tmp_path, "url") as (client, _, there, told):
        client.writer.write(b"\xc1\x85" + bytes(4) + b"hello")
        assert ended(await client.reader.read(-1)) == (
            1008,
            "A message was packed and cannot be looked through for secrets. It was not sent.",
        )
        client.writer.close()
    assert there.heard == b""
    assert [(one.allowed, one.secrets) for one in told] == [(False, ())]
    assert "a frame was changed by an extension that was not agreed on" in str(told[0].reason)


async def test_a_message_of_the_other_side_is_not_cut_in_two_by_the_reason(tmp_path: Path) -> None:
    async def begins(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED + b"\x82\x7e\xff\xffonly a part")
        await reader.read(-1)

    async with (
        asyncio.timeout(GUARD_S),
        service(begins) as port,
        proxy(tmp_path, port) as (socket, placeholder, told),
        Client(socket) as client,
    ):
        await client.head(HANDSHAKE.format(at=f"http://127.0.0.1:{port}/", key="none").encode())
        assert await client.reader.readexactly(15) == b"\x82\x7e\xff\xffonly a part"
        client.writer.write(frames((Opcode.TEXT, placeholder.encode(), True)))
        assert await client.reader.read(-1) == b""
    assert [one.allowed for one in told] == [False]


async def test_an_upgrade_to_something_else_is_not_read_as_frames(tmp_path: Path) -> None:
    async def switches(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(SWITCHED.replace(b"websocket", b"other") + (b"kept" if b"Sec-WebSocket-Ext" in head else b"gone"))
        await echo(reader, writer)

    async with (
        asyncio.timeout(GUARD_S),
        service(switches) as port,
        proxy(tmp_path, port) as (socket, _, told),
        Client(socket) as client,
    ):
        asked = HANDSHAKE.format(at=f"http://127.0.0.1:{port}/", key="none").replace("WebSocket\r\nX", "other\r\nX")
        await client.head(asked.encode())
        client.writer.write(b"\xff\xffhello")
        assert await client.reader.readexactly(11) == b"kept\xff\xffhello"
    assert [one.allowed for one in told] == [True]
