"""The kernel host's one door: HTTP on a socket that somebody else made.

Flows in: requests of the outside. Flows out: JSON, NDJSON events, a screenshot, files. Decided here: the routes, what
is too large, and which status each refusal has.

    GET    /ready?timeout_s=          waits until the inside is usable or has failed -> Ready
    POST   /cells                     Execute -> NDJSON of Event, the last one `closed`; 409 while another cell runs
    GET    /cells/running             -> the same of what the running cell has shown so far, closed as `running`
    POST   /cells/running/hold?cell=  -> {"held": bool}; the deadline of the cell of that number does not run, until
    POST   /cells/running/release?cell=  the same, as often; it runs on
    GET    /late                      -> the same of what came since the last cells; once, then it is gone
    POST   /kernels/LANGUAGE/interrupt?cell= -> {"interrupted": bool}; a cell of that number that is yet to come ends at once
    POST   /kernels/LANGUAGE/restart  -> {"kernel_generation": int}
    GET    /kernels/LANGUAGE/connection -> KernelConnection, of a kernel that is started if there is none
    WS     /kernels/LANGUAGE/CHANNEL?kernel_id= pipes bytes to and from that socket of that kernel
    POST   /secrets/NUMBER            SecretAnswer to a `secret_asked` event; 404 when nobody waits for it
    POST   /questions/NUMBER          PersonAnswer to a `person_asked` event; the same
    /https and what is below it       of the browser's HTTPS: see `door_https.py`
    GET    /screen.png                PNG; ETag is the hash of the raw pixels, If-None-Match gives 304; with ?cell=N the one
                                      that was begun when cell N ended, if it was the last one and nobody has had it yet
    POST   /pictures/difference       PicturePair -> PictureDifference
    GET    /files?path=               -> list of FileInfo
    GET, PUT, DELETE /files/PATH      the file's bytes

Refusals are JSON: {"error": sentence}. The socket needs no token: only the outside can reach it or, in an image, the
network decides.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, cast, get_args

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import iterate_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from cellwright_kernel.child import NotUp
from cellwright_kernel.door_https import Informed, https_routes
from cellwright_kernel.event_stream import EventStream, singly
from cellwright_kernel.files import BadPath, Files, TooLarge, read_chunks
from cellwright_kernel.kernel_process import KernelProcess
from cellwright_kernel.kernels import Busy, Kernels, NoKernel
from cellwright_kernel.screen.differences import difference
from cellwright_kernel.tunnel import tunnel
from cellwright_kernel.wire import (
    CODE_BYTES,
    PICTURES_BYTES,
    POST_BYTES,
    Channel,
    Execute,
    FileInfo,
    Language,
    PicturePair,
    Ready,
    SecretAnswer,
)
from cellwright_kernel.wire_people import PersonAnswer

_READY_S: Final = 30.0
_LISTING: Final = TypeAdapter(list[FileInfo])


class _Anything(PathConvertor):
    """The rest of a path, with the line breaks that a name may have."""

    regex = "(?s:.*)"


register_url_convertor("anything", _Anything())


class Screen(Protocol):
    """What a screenshot is, to the door."""

    @property
    def png(self) -> bytes:
        """The encoded file."""

    @property
    def pixels_sha256(self) -> str:
        """Hash of the raw pixels, 64 hex digits."""


class Answerable(Protocol):
    """Who waits for answers about secrets."""

    def answer(self, number: int, said: SecretAnswer) -> bool:
        """Take one; False when nobody waits for it."""


class OpenQuestions(Protocol):
    """Who waits for answers of people."""

    def answer(self, number: int, said: PersonAnswer) -> bool:
        """Take one; False when nobody waits for it."""


class Inside(Informed, Protocol):
    """What the door opens to."""

    @property
    def kernels(self) -> Kernels:
        """Whom cells are posted to."""

    @property
    def secrets(self) -> Answerable | None:
        """Whom answers about secrets are for; None where there are none."""

    @property
    def questions(self) -> OpenQuestions:
        """Whom people's answers are for."""

    async def ready(self, timeout_s: float) -> Ready:
        """Wait until everything is usable, something has failed, or the time is over."""

    async def screenshot(self, *, left_by: int | None) -> Screen:
        """Take a screenshot, or the one that was begun when a cell ended; raises NotUp when there is no desktop."""


def door(inside: Inside, home: Path) -> Starlette:
    """Return the application that answers at the door."""
    routes = _Routes(inside, Files(home))
    return Starlette(
        routes=[
            Route("/ready", routes.ready),
            Route("/cells", routes.execute, methods=["POST"]),
            Route("/cells/running", routes.so_far),
            Route("/cells/running/{word}", routes.hold, methods=["POST"]),
            Route("/late", routes.late),
            Route("/kernels/{language}/interrupt", routes.interrupt, methods=["POST"]),
            Route("/kernels/{language}/restart", routes.restart, methods=["POST"]),
            Route("/kernels/{language}/connection", routes.connection),
            WebSocketRoute("/kernels/{language}/{channel}", routes.tunnel),
            Route("/secrets/{number:int}", routes.answer, methods=["POST"]),
            Route("/questions/{number:int}", routes.answer_of_person, methods=["POST"]),
            *https_routes(inside),
            Route("/screen.png", routes.screen),
            Route("/pictures/difference", routes.picture_difference, methods=["POST"]),
            Route("/files", routes.list_files),
            Route("/files/{path:anything}", routes.read_file),
            Route("/files/{path:anything}", routes.write_file, methods=["PUT"]),
            Route("/files/{path:anything}", routes.delete_file, methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: _refusal, Exception: _fault},
    )


class _Routes:
    def __init__(self, inside: Inside, files: Files) -> None:
        self._inside = inside
        self._files = files

    async def ready(self, request: Request) -> Response:
        try:
            timeout_s = min(120.0, max(0.0, float(request.query_params.get("timeout_s", _READY_S))))
        except ValueError:
            raise HTTPException(400, "timeout_s is no number.") from None
        found = await self._inside.ready(timeout_s)
        return Response(found.model_dump_json(), media_type="application/json")

    async def execute(self, request: Request) -> Response:
        try:
            asked = Execute.model_validate_json(await _body(request))
        except ValidationError as error:
            reason = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, reason["loc"]))
            raise HTTPException(400, f"The request is no cell: {where}: {reason['msg']}.") from None
        if len(asked.code.encode(errors="surrogatepass")) > CODE_BYTES:
            raise HTTPException(413, f"The code is larger than {CODE_BYTES:,} bytes. Nothing was executed.")
        with _refusals():
            cell = self._inside.kernels.execute(asked)
        return EventStream(cell.events())

    async def so_far(self, _: Request) -> Response:
        return EventStream(singly(self._inside.kernels.so_far()))

    async def hold(self, request: Request) -> Response:
        word, number = request.path_params["word"], _cell_number(request)
        if word not in {"hold", "release"} or number is None:
            raise HTTPException(404, "There is no such place.")
        return JSONResponse({"held": self._inside.kernels.hold(number, is_held=word == "hold")})

    async def late(self, _: Request) -> Response:
        return EventStream(singly(self._inside.kernels.late()))

    async def interrupt(self, request: Request) -> Response:
        with _refusals():
            interrupted = self._inside.kernels.interrupt(_language(request), _cell_number(request))
        return JSONResponse({"interrupted": interrupted})

    async def restart(self, request: Request) -> Response:
        with _refusals():
            generation = await self._inside.kernels.restart(_language(request))
        return JSONResponse({"kernel_generation": generation})

    async def connection(self, request: Request) -> Response:
        with _refusals():
            kernel = await self._inside.kernels.running_kernel(_language(request))
        return Response(kernel.connection.model_dump_json(), media_type="application/json")

    async def answer(self, request: Request) -> Response:
        secrets = self._inside.secrets
        try:
            said = SecretAnswer.model_validate_json(await _body(request))
        except ValidationError:
            raise HTTPException(400, "The request is no answer.") from None
        if secrets is None or not secrets.answer(request.path_params["number"], said):
            raise HTTPException(404, "Nobody waits for this answer.")
        return Response(status_code=204)

    async def answer_of_person(self, request: Request) -> Response:
        try:
            said = PersonAnswer.model_validate_json(await _body(request))
        except ValidationError:
            raise HTTPException(400, "The request is no answer.") from None
        if not self._inside.questions.answer(request.path_params["number"], said):
            raise HTTPException(404, "Nobody waits for this answer.")
        return Response(status_code=204)

    async def tunnel(self, websocket: WebSocket) -> None:
        try:
            with _refusals():
                kernel = await self._inside.kernels.running_kernel(_language(websocket))
                reader, writer = await asyncio.open_unix_connection(kernel.socket(_channel(websocket, kernel)))
        except HTTPException as error:
            await websocket.send_denial_response(await _refusal(websocket, error))
            return
        await tunnel(websocket, reader, writer)

    async def screen(self, request: Request) -> Response:
        with _refusals():
            found = await self._inside.screenshot(left_by=_cell_number(request))
        tag = f'"{found.pixels_sha256}"'
        headers = {"ETag": tag, "Cache-Control": "no-store"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(found.png, headers=headers, media_type="image/png")

    async def picture_difference(self, request: Request) -> Response:
        try:
            pair = PicturePair.model_validate_json(await _body(request, PICTURES_BYTES))
        except ValidationError:
            raise HTTPException(400, "The request is no pair of pictures.") from None
        found = await asyncio.to_thread(difference, pair)
        return Response(found.model_dump_json(), media_type="application/json")

    async def list_files(self, request: Request) -> Response:
        with _refusals():
            found = await asyncio.to_thread(self._files.listing, request.query_params.get("path", ""))
        return Response(_LISTING.dump_json(found), media_type="application/json")

    async def read_file(self, request: Request) -> Response:
        with _refusals():
            handle, size = self._files.open(request.path_params["path"])
        headers = {"Content-Length": str(size)}
        chunks = iterate_in_threadpool(read_chunks(handle, size))
        return StreamingResponse(chunks, headers=headers, media_type="application/octet-stream")

    async def write_file(self, request: Request) -> Response:
        with _refusals():
            size = await self._files.write(request.path_params["path"], request.stream())
        return JSONResponse({"size_bytes": size})

    async def delete_file(self, request: Request) -> Response:
        with _refusals():
            self._files.delete(request.path_params["path"])
        return Response(status_code=204)


async def _body(request: Request, most_bytes: int = POST_BYTES) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, f"The request is larger than {most_bytes:,} bytes. Nothing was executed.")
    return bytes(body)


def _channel(websocket: WebSocket, kernel: KernelProcess) -> Channel:
    """Return which socket is meant; it must be one of the very kernel that the other side knows the key of."""
    if websocket.query_params.get("kernel_id") != kernel.connection.kernel_id:
        raise HTTPException(410, "That kernel has ended, and its variables are gone. Attach again.")
    channel = websocket.path_params["channel"]
    if channel not in get_args(Channel):
        raise HTTPException(404, f"A kernel has no channel {channel!r}.")
    return cast("Channel", channel)


def _cell_number(request: Request) -> int | None:
    said = request.query_params.get("cell", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else None


def _language(request: HTTPConnection) -> Language:
    return cast("Language", request.path_params["language"])  # an unknown one has no kernel, and is refused there


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the inside says into a status and a sentence."""
    try:
        yield
    except Busy as error:
        raise HTTPException(409, str(error)) from None
    except (NoKernel, BadPath) as error:
        raise HTTPException(400, str(error)) from None
    except TooLarge as error:
        raise HTTPException(413, str(error)) from None
    except NotUp as error:
        raise HTTPException(503, str(error)) from None
    except (FileNotFoundError, NotADirectoryError):
        raise HTTPException(404, "There is no such file.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The request broke off.") from None
    except OSError as error:
        raise HTTPException(507, f"The file could not be written: {error.strerror}.") from None


async def _refusal(_: HTTPConnection, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - for the type checker; registered for it alone
    return JSONResponse({"error": error.detail}, status_code=error.status_code)


async def _fault(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"The kernel host failed: {type(error).__name__}: {error}."}, status_code=500)
