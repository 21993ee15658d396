"""The Unix sockets of an attached kernel: bytes pass, and a client that does not read is not waited for without an end."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import GUARD_S
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from cellwright.cli import local_sockets as sockets
from cellwright.cli.local_sockets import local_sockets
from cellwright.errors import CellwrightError, KernelEnded, ServiceUnreachable, SessionNotFound
from cellwright.sandbox import tunnel as tunnels
from cellwright_kernel.wire import KernelConnection

KERNEL = KernelConnection(kernel_id="0" * 16, key="1" * 32)
Handler = Callable[[ServerConnection], Awaitable[None]]
Refuse = Callable[[ServerConnection, Request], Response]


@asynccontextmanager
async def gateway(handler: Handler, refuse: Refuse | None = None) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", 0, compression=None, close_timeout=0.1, process_request=refuse) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def left_in(place: Path) -> list[Path]:
    return list(place.iterdir())


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def test_bytes_pass_through_the_socket_of_a_channel(place: Path) -> None:
    async with asyncio.timeout(GUARD_S), gateway(echo) as url, local_sockets(KERNEL, url, "t") as (file, _):
        told = json.loads(file.read_text())
        socket = Path(f"{told['ip']}-{told['shell_port']}")
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        writer.close()
        await writer.wait_closed()
    assert left_in(place) == []


async def test_a_client_that_reads_nothing_for_long_is_let_go(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnels, "STUCK_S", 0.1)
    monkeypatch.setattr(tunnels, "CLOSE_S", 0.1)
    monkeypatch.setattr(sockets, "CLOSE_S", 0.1)
    left = asyncio.Event()

    async def flood(connection: ServerConnection) -> None:
        try:
            while True:
                await connection.send(b"x" * 65536)
        finally:
            left.set()

    async with asyncio.timeout(GUARD_S), gateway(flood) as url, local_sockets(KERNEL, url, "t") as (file, ended):
        reader, writer = await asyncio.open_unix_connection(file.parent / "s-1")
        writer.transport.pause_reading()  # type: ignore[attr-defined] - a Unix socket's can
        await left.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while await reader.read(65536):  # it ends: nothing keeps the socket open
            pass
        writer.close()
        assert not ended.done()  # others go on
    assert left_in(place) == []


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("error", [KernelEnded, SessionNotFound])
async def test_a_refusal_ends_it_with_the_error_that_it_was(error: type[CellwrightError]) -> None:
    def refuse(connection: ServerConnection, _: Request) -> Response:
        return connection.respond(error.http_status, json.dumps({"error": error.sentence, "kind": error.__name__}))

    async with asyncio.timeout(GUARD_S), gateway(echo, refuse) as url, local_sockets(KERNEL, url, "t") as (file, ended):
        _, writer = await asyncio.open_unix_connection(file.parent / "s-1")
        told = await ended
        writer.close()
    assert (type(told), str(told)) == (error, error.sentence)


@pytest.mark.usefixtures("place")
async def test_a_service_that_has_ended_is_said() -> None:
    async with gateway(echo) as url:
        pass
    async with asyncio.timeout(GUARD_S), local_sockets(KERNEL, url, "t") as (file, ended):
        _, writer = await asyncio.open_unix_connection(file.parent / "s-1")
        assert isinstance(await ended, ServiceUnreachable)
        writer.close()
