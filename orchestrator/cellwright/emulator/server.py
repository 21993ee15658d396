"""An offline server of the Responses API that plays a script over real HTTP.

Flows in: a `Script`, and requests of any client of the API. Flows out: responses, streamed or whole, and the API's errors.
Decided here: that it is as strict as the real one (`protocol.py`); that a conversation's place in the script is read from
its history, so that many may be played at once and a retry plays the same turn; and that a script's expectation
which is not met refuses the request, so that a scripted model can look at what came back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Generator
from types import TracebackType
from typing import Final, Self

import uvicorn
from pydantic import JsonValue
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, StreamingResponse
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from cellwright.counted import counted
from cellwright.emulator.playing import Event, events_of, has_image, response_for, texts_of, turns_played
from cellwright.emulator.protocol import Conversation, Refused, Stored, conversation
from cellwright.emulator.script import Script, ScriptedTurn
from cellwright.errors import EnvironmentMissing

API_KEY: Final = "emulator"
"""What clients may send as their key. Any other is taken as well; none is not."""
_STORED: Final = 1000
"""Responses that are kept for `previous_response_id`; the oldest go first."""
_SHOWN_CHARS: Final = 2000


class Emulator:
    """The server, while its `async with` block lasts."""

    def __init__(self, script: Script, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Prepare; `port` 0 takes a free one."""
        self.script = script
        self.requests: list[JsonValue] = []
        """Bodies of the requests that were made, in order."""
        self._host = host
        self._port = port
        self._stored: dict[str, Stored] = {}
        self._refused: Counter[int] = Counter()
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None  # awaited in __aexit__

    def __repr__(self) -> str:
        return f"<Emulator {self.script.name} at {self.base_url}>"

    @property
    def base_url(self) -> str:
        """Address for clients, up to `/v1`."""
        return f"http://{self._host}:{self._port}/v1"

    async def __aenter__(self) -> Self:
        door = _listening(self._host, self._port)
        self._port = door.getsockname()[1]
        config = uvicorn.Config(
            self._app(),
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
        self.script = script
        self.requests.clear()
        self._stored.clear()
        self._refused.clear()

    async def serve(self) -> None:
        """Wait until the server ends, which it doesn't by itself."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    def _app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/responses", self._create, methods=["POST"])])

    async def _create(self, request: HttpRequest) -> HttpResponse:
        try:
            _check_key(request)
            return await self._answer(await _body(request))
        except Refused as refused:
            # the wait is for clients that retry: a test must not sit out their back-off
            return JSONResponse(refused.body(), refused.status, headers={"retry-after-ms": "1"})

    async def _answer(self, body: JsonValue) -> HttpResponse:
        self.requests.append(body)
        asked = conversation(body, self._stored)
        number = turns_played(asked.history) + 1
        turn = self._turn(number, asked)
        self._refuse_at_first(turn, number)
        _check_expectations(turn, number, asked)
        await asyncio.sleep(turn.wait_s)
        response = response_for(turn, number, asked)
        self._store(response, asked)
        if not asked.streams:
            return JSONResponse(response)
        return StreamingResponse(_stream(response, breaks=turn.breaks), media_type="text/event-stream")

    def _turn(self, number: int, asked: Conversation) -> ScriptedTurn:
        if not asked.may_call:
            return self.script.wrap_up
        if number > len(self.script.turns):
            raise Refused(
                f"{self.script.name} has {counted(len(self.script.turns), 'turn')}, and turn {number} was asked for.",
                code="script_is_over",
            )
        turn = self.script.turns[number - 1]
        for call in turn.calls:
            if call.name in ("exec_py", "exec_js") and call.name not in asked.tools:
                raise Refused(
                    f"Turn {number} of {self.script.name} calls {call.name}, which is not offered.",
                    code="script_calls_what_is_not_offered",
                )
        return turn

    def _refuse_at_first(self, turn: ScriptedTurn, number: int) -> None:
        if turn.http_status is not None and self._refused[number] < turn.http_times:
            self._refused[number] += 1
            raise Refused("The script says so.", status=turn.http_status, code="script")

    def _store(self, response: Event, asked: Conversation) -> None:
        output = response["output"]
        if asked.stores and isinstance(output, list):
            items = [item for item in output if isinstance(item, dict)]
            self._stored[str(response["id"])] = Stored((*asked.history, *items))
            while len(self._stored) > _STORED:
                del self._stored[next(iter(self._stored))]


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


def _check_expectations(turn: ScriptedTurn, number: int, asked: Conversation) -> None:
    text = texts_of(asked.answers)
    wrong = [f"expected {word!r}" for word in turn.expects if word not in text]
    wrong += [f"did not expect {word!r}" for word in turn.expects_not if word in text]
    if turn.expects_image and not has_image(asked.answers):
        wrong.append("expected an image")
    if wrong:
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        raise Refused(
            f"Turn {number} of the script {' and '.join(wrong)} in the answers. They say: {shown}",
            code="script_expectation_failed",
        )


async def _stream(response: Event, *, breaks: bool) -> AsyncIterator[str]:
    events = list(events_of(response))
    for event in events[: len(events) // 2] if breaks else events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
