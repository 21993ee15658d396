"""Connections that ask nothing, or slowly: they are let go, and do not keep others from being answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S

from cellwright.gateway import connections
from cellwright.gateway.app import make_app
from cellwright.gateway.connections import BoundedHead
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "first", [b"", b"GET /health HTTP/1.1\r\nHost: ", HEALTH + b"GET /hea"], ids=["none", "half", "next"]
)
async def test_who_never_ends_the_head_of_a_request_is_hung_up_on(
    first: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.05)
    async with serving(tmp_path) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        said = await reader.read()  # to its end
        writer.close()
        assert said.count(b"HTTP/1.1 200 OK") == first.count(HEALTH)


async def test_more_connections_than_there_may_be_are_let_go_and_those_before_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST", 3)
    async with serving(tmp_path) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in held:
            writer.write(HEALTH)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEALTH)
        assert await read_or_reset(reader) == b""
        for _, one in [*held, (reader, writer)]:
            one.close()


async def read_or_reset(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@asynccontextmanager
async def serving(runs: Path) -> AsyncIterator[int]:
    """Serve on a free port, and give it."""
    app = make_app(Pool(Spec(), runs=runs, backend=FakeBackend()), token="t" * 32, hosts=())
    server = PromptServer(uvicorn.Config(app, http=BoundedHead, port=0, log_config=None, lifespan="on"))
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(GUARD_S):
        tasks.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
