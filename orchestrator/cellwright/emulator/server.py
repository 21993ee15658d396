"""An offline server of the Responses API that plays a script over real HTTP.

Flows in: a `Script`, and requests of any client of the API. Flows out: responses, streamed or whole, and the API's errors.
Decided here: that it is as strict as the real one (`protocol.py`); that what it was asked is kept; and what it stores.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
from collections.abc import Generator
from types import TracebackType
from typing import Final, Self

import uvicorn
from pydantic import JsonValue
from starlette.requests import Request as HttpRequest
from starlette.types import Receive, Scope, Send

from cellwright.emulator.delivery import Delivery, delivery_of, json_delivery
from cellwright.emulator.faults import fault_named
from cellwright.emulator.protocol import Conversation, Refused, Stored, conversation
from cellwright.emulator.rules import RateLimit, ServerRules
from cellwright.emulator.script import Script
from cellwright.emulator.seen import SeenRequest
from cellwright.emulator.turns import Answer, Due, Playing, is_forgetful
from cellwright.errors import EnvironmentMissing
from cellwright.model.base import Item

API_KEY: Final = "emulator"
"""What clients may send as their key. Any other is taken as well; none is not."""
_STORED: Final = 1000
"""Responses that are kept for `previous_response_id`; the oldest go first."""
_PATH: Final = "/v1/responses"
_SECRET_HEADERS: Final = ("authorization", "cookie", "proxy-authorization")


class Emulator:
    """The server, while its `async with` block lasts."""

    def __init__(
        self,
        script: Script,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        rules: ServerRules | None = None,
        kept: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            script: What it plays.
            host: Address to listen on.
            port: 0 takes a free one.
            rules: What it allows; absent: what the API does.
            kept: So many of the newest requests are kept to be looked at; absent: all.
        """
        self.requests: list[JsonValue] = []
        """Bodies of the requests that were made, in order."""
        self.seen: list[SeenRequest] = []
        """All requests, and how they were answered, in the order of the answers."""
        self.rules = rules or ServerRules()
        self.rate = RateLimit(self.rules.requests_per_second)
        """What came too early is counted here."""
        self._kept = kept
        self._host = host
        self._port = port
        self._playing = Playing(script)
        self._stored: dict[str, Stored] = {}
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None  # awaited in __aexit__

    def __repr__(self) -> str:
        return f"<Emulator {self.script.name} at {self.base_url}>"

    @property
    def script(self) -> Script:
        """What it plays."""
        return self._playing.script

    @property
    def base_url(self) -> str:
        """Address for clients, up to `/v1`."""
        return f"http://{self._host}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        door = _listening(self._host, self._port)
        self._port = door.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            proxy_headers=False,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[door]))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._server is not None and self._serving is not None:
            self._server.told_to_end.set()
            await self._serving

    def play(self, script: Script) -> None:
        """Play another script from now on, and forget what was asked before."""
        self._playing = Playing(script)
        self.requests.clear()
        self.seen.clear()
        self._stored.clear()

    async def serve(self) -> None:
        """Wait until the server ends, which it doesn't by itself."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await self._answered(HttpRequest(scope, receive))).send(receive, send)

    async def _answered(self, request: HttpRequest) -> Delivery:
        saw = _Saw()
        try:
            delivery = await self._delivery(request, saw)
        except Refused as refused:
            saw.error = str(refused)
            delivery = json_delivery(refused.body(), refused.status, refused.headers)
        self.seen.append(saw.seen(request, delivery.status))
        if self._kept is not None:
            for kept in (self.requests, self.seen):
                del kept[: max(0, len(kept) - self._kept)]
        return delivery

    async def _delivery(self, request: HttpRequest, saw: _Saw) -> Delivery:
        if request.url.path != _PATH or request.method != "POST":
            raise Refused(f"Invalid URL ({request.method} {request.url.path})", status=404)
        _check_key(request)
        body = await _body(request)
        self.requests.append(body)
        saw.body = body if isinstance(body, dict) else {}
        self._check_rate()
        asked = conversation(body, self._stored, self.rules)
        saw.history = asked.history
        due = self._playing.due(asked)
        saw.turn = due.number
        answer = self._answer(due, asked, saw)
        await asyncio.sleep(due.turn.wait_s)
        self._store(answer, asked)
        return delivery_of(
            answer.response,
            streams=asked.streams,
            effect=answer.effect,
            seconds=answer.fault.seconds if answer.fault else None,
            pace_s=due.turn.pace_s,
            breaks=due.turn.breaks,
        )

    def _answer(self, due: Due, asked: Conversation, saw: _Saw) -> Answer:
        try:
            answer = self._playing.answer(due, asked)
        except Refused as refused:
            saw.fault = refused.fault
            if refused.fault and is_forgetful(fault_named(refused.fault).effect) and asked.previous:
                self._stored.pop(asked.previous, None)
            raise
        saw.fault = answer.fault.name if answer.fault else None
        return answer

    def _check_rate(self) -> None:
        wait_s = self.rate.wait_s()
        if wait_s is not None:
            raise Refused(
                "Rate limit reached for requests. Please try again later.",
                status=429,
                code="rate_limit_exceeded",
                kind="requests",
                headers={"retry-after": str(math.ceil(wait_s)), "retry-after-ms": str(math.ceil(wait_s * 1000))},
            )

    def _store(self, answer: Answer, asked: Conversation) -> None:
        output = answer.response["output"]
        if asked.stores and isinstance(output, list):
            items = [item for item in output if isinstance(item, dict)]
            self._stored[str(answer.response["id"])] = Stored((*asked.history, *items), answer.turns)
            while len(self._stored) > _STORED:
                del self._stored[next(iter(self._stored))]


class _Saw:
    """What is known so far of a request that is being answered."""

    def __init__(self) -> None:
        self.body: dict[str, JsonValue] = {}
        self.error: str | None = None
        self.turn: int | None = None
        self.fault: str | None = None
        self.history: tuple[Item, ...] = ()

    def seen(self, request: HttpRequest, status: int) -> SeenRequest:
        headers = {name: value for name, value in request.headers.items() if name not in _SECRET_HEADERS}
        retry = headers.get("x-stainless-retry-count", "0")
        return SeenRequest(
            self.body,
            status,
            self.error,
            self.turn,
            self.history,
            self.fault,
            retry=int(retry) if retry.isdecimal() else 0,
            headers=headers,
        )


class _Server(uvicorn.Server):
    """A server inside another program, whose signals are not its own, and that ends as soon as it is told."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told_to_end = asyncio.Event()

    async def main_loop(self) -> None:
        await self.told_to_end.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _listening(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise EnvironmentMissing(
            f"The emulator cannot listen on {host}:{port}: {error.strerror}. Usually another program has the port. "
            "Nothing was started. Choose another --port, or 0 for a free one."
        ) from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited by connections; else 40 ms an answer
    return listener


def _check_key(request: HttpRequest) -> None:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refused("You didn't provide an API key.", status=401, code="invalid_api_key")


async def _body(request: HttpRequest) -> JsonValue:
    try:
        body: JsonValue = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused("We could not parse the JSON body of your request.") from error
    return body
