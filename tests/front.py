"""A small HTTP server of a test's own, and one in front of the emulator that sees each request first."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator

import httpx2
import uvicorn
from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.responses import StreamingResponse
from starlette.routing import Route

from cellwright.emulator.script import Script
from cellwright.emulator.server import Emulator


class Front(ABC):
    """Answers `POST /v1/responses`, while its `async with` block lasts."""

    def __init__(self) -> None:
        self.requests: list = []
        """Bodies of the requests that came, in order."""
        self.over = asyncio.Event()
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.base_url = f"http://127.0.0.1:{self._door.getsockname()[1]}/v1"

    async def __aenter__(self):
        config = uvicorn.Config(
            self.app(),
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._serving = asyncio.ensure_future(_Server(config, self.over).serve(sockets=[self._door]))
        return self

    async def __aexit__(self, *raised) -> None:
        self.over.set()
        await self._serving
        self._door.close()

    def routes(self) -> list[Route]:
        return [Route("/v1/responses", self._came, methods=["POST"])]

    def app(self) -> Starlette:
        return Starlette(routes=self.routes())

    async def _came(self, request: HttpRequest) -> HttpResponse:
        body = json.loads(await request.body())
        self.requests.append(body)
        return await self.answer(body)

    @abstractmethod
    async def answer(self, body: dict[str, JsonValue]) -> HttpResponse:
        """Return what one request is answered with."""


class BeforeEmulator(Front):
    """Hands requests on to the emulator, and what it says back."""

    def __init__(self, script: str) -> None:
        super().__init__()
        self.emulator = Emulator(Script.parse(script))

    async def __aenter__(self):
        await self.emulator.__aenter__()
        headers = {"Authorization": "Bearer k"}
        self._client = httpx2.AsyncClient(headers=headers, trust_env=False, verify=False, timeout=60)
        return await super().__aenter__()

    async def __aexit__(self, *raised) -> None:
        await super().__aexit__(*raised)
        await self._client.aclose()
        await self.emulator.__aexit__(None, None, None)

    def play(self, script: str) -> None:
        self.emulator.play(Script.parse(script))
        self.requests.clear()

    async def handed_on(self, body: dict[str, JsonValue]) -> HttpResponse:
        """Return the emulator's answer, event by event where it streams."""
        came = await self._client.post(f"{self.emulator.base_url}/responses", json=body)
        kind = came.headers.get("content-type", "")
        if "event-stream" not in kind:
            return HttpResponse(came.content, came.status_code, media_type=kind)
        return StreamingResponse(_events(came.text), media_type="text/event-stream")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, over: asyncio.Event) -> None:
        super().__init__(config)
        self._over = over

    async def main_loop(self) -> None:
        await self._over.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _events(text: str) -> AsyncIterator[str]:
    for event in text.split("\n\n"):
        if event.strip():
            yield f"{event}\n\n"
