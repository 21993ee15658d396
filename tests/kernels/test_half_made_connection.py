"""A connection to Chromium that breaks off while it is being made is closed: each further try would leave one more open."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from cellwright_kernel import processes
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Execute

pytestmark = pytest.mark.slow


class Devtools:
    """A Chromium as far as Playwright needs one to connect, that then refuses a session."""

    def __init__(self) -> None:
        self.url = ""
        self.opened = 0
        self.open = 0

    async def talk(self, connection: ServerConnection) -> None:
        self.opened += 1
        self.open += 1
        async for text in connection:
            asked = json.loads(text)
            answer = {key: asked[key] for key in ("id", "sessionId") if key in asked}
            match asked["method"]:
                case "Browser.getVersion":
                    result = {"product": "Chrome/156.0.0.0", "userAgent": "Mozilla/5.0", "protocolVersion": "1.3"}
                    answer["result"] = {**result, "revision": "", "jsVersion": ""}
                case "Target.attachToBrowserTarget":
                    answer["error"] = {"code": -32000, "message": "Not today"}
                case _:
                    answer["result"] = {}
            await connection.send(json.dumps(answer))
        self.open -= 1

    def version(self, _: ServerConnection, request: Request) -> Response | None:
        if not request.path.startswith("/json/version"):
            return None
        body = json.dumps({"webSocketDebuggerUrl": self.url.replace("http", "ws") + "/devtools"}).encode()
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"})
        return Response(HTTPStatus.OK, "OK", headers, body)


@asynccontextmanager
async def refusing() -> AsyncIterator[Devtools]:
    devtools = Devtools()
    async with serve(devtools.talk, "127.0.0.1", 0, process_request=devtools.version) as server:
        devtools.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield devtools


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_what_was_half_made_is_closed(language, tmp_path):
    processes.become_subreaper()
    async with refusing() as devtools:
        environment = {**os.environ, "CELLWRIGHT_CDP": devtools.url, "HOME": str(tmp_path)}
        async with Kernels(str(tmp_path), tmp_path / "kernels", lambda: environment) as kernels, asyncio.timeout(60):
            for number in (1, 2):
                code = "typeof page" if language == "javascript" else "'page' in globals() and type(page)"
                cell = kernels.execute(Execute(number=number, language=language, code=code, deadline_s=20))
                events = [event async for batch in cell.events() for event in batch]
                said = [event.output.text for event in events if event.type == "output"]
                assert "The browser cannot be reached" in said[0]
                assert "Not today" in said[0]
                assert devtools.opened == number
                while devtools.open:  # noqa: ASYNC110 - another process closes it
                    await asyncio.sleep(0.01)
