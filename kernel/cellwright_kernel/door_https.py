"""The door's part for the browser's HTTPS.

Flows in: requests of the outside. Flows out: what the informant tells. Decided here: the routes, and that a listener who hangs up
has heard enough.

    GET    /https?taped=              -> NDJSON of HttpsMessage until `/https/end`; taped=true: requests are asked about first
    POST   /https/answers/NUMBER      HttpsAnswer to a request that was asked about; 404 when it waits no more
    POST   /https/lift                from now on requests go out without being asked about
    POST   /https/end                 the rest is told, and the stream ends

All are 404 where there is no way out, or no browser.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cellwright_kernel.informant.informant import Informant
from cellwright_kernel.wire_https import HTTPS_ANSWER_BYTES, HttpsAnswer


class Informed(Protocol):
    """What these routes open to."""

    @property
    def informant(self) -> Informant | None:
        """Who tells; None where there is nothing to tell."""


def https_routes(inside: Informed) -> list[Route]:
    """Return the routes."""
    return [
        Route("/https", partial(_told, inside)),
        Route("/https/answers/{number:int}", partial(_answer, inside), methods=["POST"]),
        Route("/https/lift", partial(_lift, inside), methods=["POST"]),
        Route("/https/end", partial(_end, inside), methods=["POST"]),
    ]


async def _told(inside: Informed, request: Request) -> Response:
    return _Told(_informant(inside), taped=request.query_params.get("taped") == "true")


async def _answer(inside: Informed, request: Request) -> Response:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > HTTPS_ANSWER_BYTES:
            raise HTTPException(413, f"The answer is larger than {HTTPS_ANSWER_BYTES:,} bytes.")
    try:
        said = HttpsAnswer.model_validate_json(bytes(body))
    except ValidationError:
        raise HTTPException(400, "The request is no answer.") from None
    if not _informant(inside).answer(request.path_params["number"], said):
        raise HTTPException(404, "This request waits no more.")
    return Response(status_code=204)


async def _lift(inside: Informed, _: Request) -> Response:
    _informant(inside).lift()
    return Response(status_code=204)


async def _end(inside: Informed, _: Request) -> Response:
    await _informant(inside).end()
    return Response(status_code=204)


def _informant(inside: Informed) -> Informant:
    informant = inside.informant
    if informant is None:
        raise HTTPException(404, "Nothing is told of HTTPS here: there is no way out, or no browser.")
    return informant


class _Told(Response):
    """What is told, as lines of NDJSON, sent as they come."""

    media_type = "application/x-ndjson"

    def __init__(self, informant: Informant, *, taped: bool) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers()
        self._informant = informant
        self._is_taped = taped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, as ASGI has it."""
        del scope
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def send_line(line: bytes) -> None:
            await send({"type": "http.response.body", "body": line, "more_body": True})

        telling = asyncio.ensure_future(self._informant.tell(send_line, taped=self._is_taped))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (telling, leaving):
                task.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
