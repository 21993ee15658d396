"""Bytes on a connection that nobody has asked a token for yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S

from cellwright.gateway.connections import HEAD_BYTES, BoundedHead


class _Server(PromptServer):
    def install_signal_handlers(self) -> None:
        """Leave the signals alone."""


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    config = uvicorn.Config(PlainTextResponse("ok"), http=BoundedHead, port=0, log_config=None, lifespan="off")
    server = _Server(config)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True


async def said(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(GUARD_S):
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await reader.read(65536)
    except ConnectionError:
        return b"hung up"
    finally:
        writer.transport.abort()


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize("endless", [b"X: " + b"a" * 1_000_000, b"X: y\r\n" * 200_000])
async def test_a_head_without_end_is_not_read_to_its_end(endless: bytes) -> None:
    async with serving() as port:
        first = await said(port, HEAD, *[endless] * 20)
        assert first == b"hung up" or first.startswith(b"HTTP/1.1 400 ")
        assert (await said(port, HEAD + b"\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_body_is_none_of_the_heads_business() -> None:
    body = b"x" * (4 * HEAD_BYTES)
    async with serving() as port:
        request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        answer = await said(port, request, request)  # on one connection
        assert answer.count(b"HTTP/1.1 200 ") >= 1
        assert b"400" not in answer
