"""A sandbox that is none: the same door and the same wire, with cells executed in the test's own process.

Flows in: a Spec. Flows out: a `Sandbox` that needs no root, no display and no browser. Decided here: what a double
may leave out. It has Python only, its screen is one plain picture, `display` takes the bytes of a PNG, and a cell of it cannot be
interrupted but while it asks a person.
Give it nothing but code of your own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import signal
import struct
import threading
import traceback
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cellwright.sandbox.base import Sandbox, SandboxInfo, Spec
from cellwright.sandbox.door import Door
from cellwright.testing.asking import FakeQuestions, Streaming
from cellwright_kernel.wire import (
    CellStatus,
    ClosedEvent,
    Event,
    Execute,
    FileInfo,
    Image,
    OutputEvent,
    Ready,
    Rung,
    Source,
    Text,
)
from cellwright_kernel.wire_people import PersonAnswer

_ETAG = '"plain"'


class FakeBackend:
    """Makes fake sandboxes; remembers them in `made`."""

    name = "fake"

    def __init__(self) -> None:
        self.made: list[FakeSandbox] = []

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:  # noqa: ARG002 - no way out
        """See `Backend.start`."""
        self.made.append(FakeSandbox(spec))
        return self.made[-1]


class FakeSandbox:
    """One fake sandbox."""

    def __init__(self, spec: Spec | None = None) -> None:
        self.spec = spec or Spec()
        self.files: dict[str, bytes] = {}
        """Path below home -> content."""
        self.executed: list[str] = []
        """Codes of the cells that it was given, in order."""
        self.screen_changed = True
        """What each cell that ends says of the screen."""
        self.screenshots = 0
        """How often it was asked for one."""
        self.left_by: list[str | None] = []
        """Of each, the number of the cell that was to have left it; None: it was to be of now."""
        self.late: list[Text] = []
        """What it will say that earlier cells, by their `of_cell`, wrote after the last one."""
        self._namespace: dict[str, Any] = {}
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._questions = FakeQuestions()
        self._door = Door(Streaming(httpx2.ASGITransport(app=self._app()), self._asking_cell))

    @property
    def info(self) -> SandboxInfo:
        """What is in force: nothing."""
        return SandboxInfo(backend="fake", isolated=False, uid=1000, pid=0, limits={})

    @property
    def door(self) -> Door:
        """The way in, over the same HTTP as a real one's."""
        return self._door

    async def ended(self) -> str:
        """Wait until `lose` was called or it was closed."""
        return await asyncio.shield(self._end)

    async def close(self) -> None:
        """End it."""
        if not self._end.done():
            self._end.set_result("It was closed.")
        await self._door.close()

    def lose(self) -> None:
        """Make it end by itself, as a crash would."""
        self._end.set_result("It was ended by SIGKILL.")

    def _app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/ready", self._ready),
                Route("/cells", self._cells, methods=["POST"]),
                Route("/cells/running", self._none_runs),
                Route("/late", self._late),
                Route("/questions/{number:int}", self._answer, methods=["POST"]),
                Route("/kernels/{language}/interrupt", self._interrupt, methods=["POST"]),
                Route("/kernels/{language}/restart", self._restart, methods=["POST"]),
                Route("/screen.png", self._screen),
                Route("/files", self._list),
                Route("/files/{path:path}", self._file, methods=["GET", "PUT", "DELETE"]),
            ]
        )

    async def _ready(self, _: Request) -> Response:
        return _json(Ready(ready=True, versions={"python": "fake"}))

    async def _cells(self, request: Request) -> Response:
        if self._end.done():
            return JSONResponse({"error": "gone"}, status_code=500)
        asked = Execute.model_validate_json(await request.body())
        return _ndjson(self._execute(asked))

    def _asking_cell(self, request: httpx2.Request) -> AsyncIterator[bytes] | None:
        """Return the events of a cell that may ask a person; None for everything else."""
        if request.url.path != "/cells" or b"ask_user" not in request.content or self._end.done():
            return None
        asked = Execute.model_validate_json(request.content)
        return self._questions.events(lambda ask_user: self._execute(asked, ask_user))

    async def _answer(self, request: Request) -> Response:
        said = PersonAnswer.model_validate_json(await request.body())
        return Response(status_code=204 if self._questions.answer(request.path_params["number"], said) else 404)

    async def _none_runs(self, _: Request) -> Response:
        return _ndjson([ClosedEvent(status="ok")])  # its cells are over before anybody can ask

    async def _late(self, _: Request) -> Response:
        events: list[Event] = [*(OutputEvent(output=text) for text in self.late), ClosedEvent(status="ok")]
        self.late.clear()
        return _ndjson(events)

    def _execute(self, asked: Execute, ask_user: Callable[[str], str] | None = None) -> Iterable[Event]:
        """Execute code here and now; outputs in order, as the real kernel host gives them."""
        self.executed.append(asked.code)
        written: list[Text | Image] = []
        status: CellStatus = "ok"
        rung: Rung | None = None
        namespace = self._namespace
        namespace["log"] = lambda value: written.append(Text(text=str(value), source="log"))
        namespace["display"] = lambda png: written.append(_picture(png))
        namespace["ask_user"] = ask_user
        if self.spec.params:
            namespace.setdefault("params", dict(self.spec.params))
        namespace["print"] = functools.partial(print, file=_Stream(written, "stdout")) if ask_user else print
        with contextlib.ExitStack() as streams:
            if ask_user is None:  # the process's own, which nobody else writes to before it has ended
                streams.enter_context(contextlib.redirect_stdout(_Stream(written, "stdout")))
                streams.enter_context(contextlib.redirect_stderr(_Stream(written, "stderr")))
            try:
                with _deadline(asked.deadline_s):
                    exec(compile(asked.code, "<cell>", "exec"), namespace)  # noqa: S102 - what a double of a kernel does
            except _DeadlinePassed:
                status, rung = "timeout", "interrupt"
            except Exception as error:
                status = "error"
                written.append(Text(text="".join(traceback.format_exception_only(error)).strip(), source="error"))
        if not written:
            written.append(Text(text="The cell ran and printed nothing.", source="notice"))
        yield from (OutputEvent(output=output) for output in written)
        yield ClosedEvent(status=status, rung=rung, screen_changed=self.screen_changed)

    async def _interrupt(self, _: Request) -> Response:
        self._questions.drop()
        return Response(status_code=204)

    async def _restart(self, _: Request) -> Response:
        self._namespace.clear()
        return Response(status_code=204)

    async def _screen(self, request: Request) -> Response:
        self.screenshots += 1
        self.left_by.append(request.query_params.get("cell"))
        if request.headers.get("if-none-match") == _ETAG:
            return Response(status_code=304)
        return Response(_grey_png(self.spec.width, self.spec.height), headers={"ETag": _ETAG}, media_type="image/png")

    async def _list(self, request: Request) -> Response:
        below = request.query_params.get("path", "")
        found = [
            FileInfo(path=path, size_bytes=len(data), modified_at="2026-01-01T00:00:00.000Z").model_dump()
            for path, data in sorted(self.files.items())
            if PurePosixPath(path).is_relative_to(below)
        ]
        return JSONResponse(found)

    async def _file(self, request: Request) -> Response:
        path = request.path_params["path"]
        if ".." in PurePosixPath(path).parts or path.startswith("/"):
            return JSONResponse({"error": "the path leaves home"}, status_code=400)
        if request.method == "PUT":
            self.files[path] = await request.body()
            return Response(status_code=204)
        if path not in self.files:
            return JSONResponse({"error": "no such file"}, status_code=404)
        if request.method == "DELETE":
            del self.files[path]
            return Response(status_code=204)
        return Response(self.files[path])


class _DeadlinePassed(BaseException):
    """No cell catches it by catching Exception."""


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Interrupt code that runs longer by a timer signal, which only the main thread gets; elsewhere it runs on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def passed(*_: object) -> None:
        raise _DeadlinePassed

    before = signal.signal(signal.SIGALRM, passed)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Stream(io.TextIOBase):
    """Appends to the cell's outputs; a run of writes to one stream is one item."""

    def __init__(self, written: list[Text | Image], source: Source) -> None:
        self._written = written
        self._source = source

    def write(self, text: str) -> int:
        last = self._written[-1] if self._written else None
        if isinstance(last, Text) and last.source == self._source:
            self._written.pop()
            text = last.text + text
        self._written.append(Text(text=text, source=self._source))
        return len(text)


def _picture(png: bytes) -> Image:
    """Return a PNG as a cell's output; its size stands in its header."""
    width, height = struct.unpack(">II", png[16:24])
    return Image(media_type="image/png", width=width, height=height, data=png)


def _json(value: Ready) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def _ndjson(events: Iterable[Event]) -> Response:
    lines = (event.model_dump_json() + "\n" for event in events)
    return Response("".join(lines), media_type="application/x-ndjson")


@functools.cache
def _grey_png(width: int, height: int) -> bytes:
    """Return a plain grey picture; written by hand so that the double needs no image library."""
    rows = (b"\0" + b"\x80" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
