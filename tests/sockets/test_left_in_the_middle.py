"""A client that hangs up in the middle of its request: nothing runs, and nothing is said of it as if it were a fault."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S

from cellwright.gateway.app import make_app
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 32


@asynccontextmanager
async def serving(runs: Path) -> AsyncIterator[PromptServer]:
    app = make_app(Pool(Spec(), runs=runs, backend=FakeBackend()), token=TOKEN, hosts=())
    server = PromptServer(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="websockets-sansio"))
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(GUARD_S):
        tasks.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        try:
            yield server
        finally:
            server.should_exit = True


@pytest.mark.parametrize("how", [b"Content-Length: 1000\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"])
@pytest.mark.parametrize(
    "line",
    [b"POST /execute", b"POST /v1/sessions", b"PUT /v1/sessions/s/files/a.txt", b"POST /v1/sessions/s/cells"],
    ids=["execute", "session", "file", "cell"],
)
async def test_nothing_is_logged_of_a_client_that_left_within_its_body(
    line: bytes, how: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as server:
        port = server.servers[0].sockets[0].getsockname()[1]
        opened = b'{"session_id": "s"}'
        await _said(port, b"POST /v1/sessions", b"Content-Length: %d\r\n\r\n" % len(opened) + opened)
        caplog.clear()
        with caplog.at_level(logging.INFO):
            writer = await _send(port, line, how)
            state = server.server_state
            while not state.tasks:  # noqa: ASYNC110 - until it is being read; uvicorn has no event for it
                await asyncio.sleep(0.001)
            writer.transport.abort()
            while state.tasks or state.connections:  # noqa: ASYNC110 - nor for its end
                await asyncio.sleep(0.001)
        assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []
        assert not any(record.exc_info for record in caplog.records)
        assert b'{"ready":true' in await _said(port, b"GET /health", b"\r\n")


async def _send(port: int, line: bytes, rest: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_head(line) + rest)
    await writer.drain()
    return writer


async def _said(port: int, line: bytes, rest: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_head(line) + b"Connection: close\r\n" + rest)
    try:
        return await reader.read()
    finally:
        writer.close()


def _head(line: bytes) -> bytes:
    return (
        line
        + b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        + TOKEN.encode()
        + b"\r\nContent-Type: application/json\r\n"
    )
