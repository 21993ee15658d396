"""A tunnel ends with either side, and with a side that takes no more bytes. The other end is a real WebSocket server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import GUARD_S
from websockets.asyncio.server import ServerConnection, unix_serve

from cellwright.sandbox import tunnel as tunnels
from cellwright.sandbox.tunnel import Tunnel, open_tunnel


@asynccontextmanager
async def tunnel_to(place: Path, other_end: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[Tunnel]:
    path = place / "s"
    async with (
        unix_serve(other_end, str(path), compression=None, close_timeout=0.1),
        open_tunnel("ws://here/", socket_path=path) as tunnel,
    ):
        yield tunnel


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def flood(connection: ServerConnection) -> None:
    while True:
        await connection.send(b"x" * 65536)


async def deaf(connection: ServerConnection) -> None:
    await connection.wait_closed()


async def said(*parts: bytes, then_silent: bool = True) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if then_silent:
        await asyncio.Event().wait()


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536


async def never(_: bytes) -> None:
    await asyncio.Event().wait()


async def test_bytes_pass_both_ways_in_order_until_the_source_ends(tmp_path: Path) -> None:
    got = bytearray()
    all_came = asyncio.Event()

    async def take(data: bytes) -> None:
        got.extend(data)
        if len(got) == 200_003:
            all_came.set()

    async def source() -> AsyncIterator[bytes]:
        yield b"a" * 200_000  # more than a message may have
        yield b""
        yield b"bcd"
        await all_came.wait()

    async with asyncio.timeout(GUARD_S), tunnel_to(tmp_path, echo) as tunnel:
        await tunnel.carry(source(), take)
    assert bytes(got) == b"a" * 200_000 + b"bcd"


async def test_it_ends_with_the_other_end(tmp_path: Path) -> None:
    async def leave(connection: ServerConnection) -> None:
        await connection.recv()

    async with asyncio.timeout(GUARD_S), tunnel_to(tmp_path, leave) as tunnel:
        await tunnel.carry(said(b"x"), never)


@pytest.mark.parametrize("broken", [ConnectionResetError, RuntimeError])
async def test_it_ends_when_this_side_breaks(tmp_path: Path, broken: type[Exception]) -> None:
    async def take(_: bytes) -> None:
        raise broken

    async with asyncio.timeout(GUARD_S), tunnel_to(tmp_path, echo) as tunnel:
        await tunnel.carry(said(b"x"), take)


async def test_who_reads_nothing_for_long_loses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "STUCK_S", 0.1)
    monkeypatch.setattr(tunnels, "CLOSE_S", 0.1)
    async with asyncio.timeout(GUARD_S), tunnel_to(tmp_path, flood) as tunnel:
        await tunnel.carry(said(), never)


async def test_a_kernel_side_that_reads_nothing_for_long_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnels, "STUCK_S", 0.1)
    monkeypatch.setattr(tunnels, "CLOSE_S", 0.1)
    async with asyncio.timeout(GUARD_S), tunnel_to(tmp_path, deaf) as tunnel:
        await tunnel.carry(endless(), never)
