"""The inside's end of a tunnel, over a real server: it ends with either side, and with a kernel that reads nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed

from cellwright_kernel import tunnel as tunnels

Kernel = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def tunnel_to(kernel: Kernel, place: Path) -> AsyncIterator[ClientConnection]:
    """A socket of a kernel, the kernel host's server before it, and a WebSocket of the outside."""

    async def end(websocket: WebSocket) -> None:
        await tunnels.tunnel(websocket, *await asyncio.open_unix_connection(place / "kernel"))

    app = Starlette(routes=[WebSocketRoute("/", end)])
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="websockets-sansio", ws_per_message_deflate=False)
    server = PromptServer(config)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "door"))
        listener.listen()
        kernel_end = await asyncio.start_unix_server(kernel, place / "kernel")
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            async with unix_connect(str(place / "door"), "ws://here/", compression=None, close_timeout=0.1) as outside:
                yield outside
            server.should_exit = True
            await serving
        kernel_end.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_bytes_pass_both_ways(tmp_path: Path) -> None:
    async with asyncio.timeout(GUARD_S), tunnel_to(echo, tmp_path) as outside:
        await outside.send(b"hello")
        assert await outside.recv() == b"hello"


async def test_it_ends_with_the_kernels_socket(tmp_path: Path) -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with asyncio.timeout(GUARD_S), tunnel_to(leave, tmp_path) as outside:
        with pytest.raises(ConnectionClosed):
            await outside.recv()


async def test_a_kernel_that_reads_nothing_for_long_loses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "_STUCK_S", 0.1)
    monkeypatch.setattr(tunnels, "_CLOSE_S", 0.1)
    ended = asyncio.Event()

    async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.transport.abort()

    async with asyncio.timeout(GUARD_S), tunnel_to(deaf, tmp_path) as outside:
        with contextlib.suppress(ConnectionClosed):  # else the test's time is over
            while True:
                await outside.send(b"x" * 65536)
        ended.set()
