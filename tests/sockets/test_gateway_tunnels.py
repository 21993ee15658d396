"""The gateway's WebSockets stand behind the same guard as its HTTP: token, Host and Origin are looked at first."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import httpx2
import pytest
import uvicorn
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from cellwright.gateway.app import make_app
from cellwright.gateway.auth import own_hosts
from cellwright.pool import Pool
from cellwright.sandbox.base import Spec
from cellwright.testing.fake_sandbox import FakeBackend

TOKEN = "t" * 32
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SHELL = "/v1/sessions/one/kernels/python/shell?kernel_id=0123456789abcdef"


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """A real server on a free port, its sessions without a sandbox; one is open."""
    pool = Pool(Spec(), runs=tmp_path, backend=FakeBackend())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        app = make_app(pool, token=TOKEN, hosts=own_hosts("127.0.0.1", port))
        server = PromptServer(uvicorn.Config(app, log_level="critical", ws="websockets-sansio", lifespan="on"))
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            async with asyncio.timeout(GUARD_S):
                while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(0.001)
            await pool.session("one", driver="gateway")
            yield f"ws://127.0.0.1:{port}"
            server.should_exit = True
            await serving


async def test_nobody_is_answered_before_the_service_is_ready(tmp_path: Path) -> None:
    """What `ready` in the answer of `/health` means."""
    may_open, asked = asyncio.Event(), asyncio.Event()

    class Slow(Pool):
        async def __aenter__(self) -> Self:
            asked.set()
            await may_open.wait()
            return await super().__aenter__()

    app = make_app(Slow(Spec(), runs=tmp_path, backend=FakeBackend()), token=TOKEN, hosts=())
    server = PromptServer(uvicorn.Config(app, log_level="critical", ws="none", lifespan="on"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/health"
        async with (
            asyncio.timeout(GUARD_S),
            asyncio.TaskGroup() as group,
            httpx2.AsyncClient(trust_env=False, verify=False) as client,
        ):
            serving = group.create_task(server.serve(sockets=[listener]))
            await asked.wait()
            with pytest.raises(httpx2.ReadTimeout):
                await client.get(url, timeout=0.1)
            answering = group.create_task(client.get(url))
            may_open.set()
            assert (await answering).json()["ready"] is True
            server.should_exit = True
            await serving


async def refused(url: str, headers: dict[str, str], **options: str) -> tuple[int, str]:
    """Try to open a WebSocket; return the status and the kind of error of the answer."""
    with pytest.raises(InvalidStatus) as refusal:
        await connect(url, additional_headers=headers, proxy=None, compression=None, **options)
    response = refusal.value.response
    body = response.body or b""
    return response.status_code, json.loads(body)["kind"] if body else ""


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ({}, (401, "TokenRefused")),
        ({"Authorization": f"Bearer {'u' * 32}"}, (401, "TokenRefused")),
        ({**AUTHORIZED, "Origin": "http://elsewhere.example"}, (403, "OriginRefused")),
        ({**AUTHORIZED, "Origin": "null"}, (403, "OriginRefused")),
        ({**AUTHORIZED, "Host": "rebound.example"}, (403, "OriginRefused")),  # beside the right one
    ],
    ids=["no token", "another token", "a page", "a page of no origin", "two hosts"],
)
async def test_a_stranger_gets_no_tunnel(address, headers, answer):
    assert await refused(address + SHELL, headers) == answer


async def test_a_rebound_name_gets_no_tunnel(address):
    host, _, port = address.removeprefix("ws://").rpartition(":")
    url = f"ws://rebound.example:{port}{SHELL}"
    assert await refused(url, AUTHORIZED, host=host) == (403, "OriginRefused")


async def test_no_websocket_passes_for_the_health_check(address):
    assert await refused(address + "/health", {}) == (401, "TokenRefused")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (SHELL.replace("one", "none"), (404, "SessionNotFound")),
        (SHELL, (400, "UsageError")),  # a fake sandbox has no kernels with sockets
        (SHELL.replace("shell", "files"), (403, "")),
        (SHELL.replace("python", "cobol"), (403, "")),
    ],
    ids=["no such session", "no sockets", "no such channel", "no such language"],
)
async def test_what_cannot_be_attached_to_is_refused(address, path, answer):
    assert await refused(address + path, AUTHORIZED) == answer
