"""A cell's events as lines of NDJSON, for as long as somebody reads them.

Flows in: a session and what to execute. Flows out: one line an event, and the finished cell as the last one. Decided
here: that a reader who leaves does not end the cell, which goes on to its end and into the journal, and that nobody waits
for it then; and that what is wrong before the first event is an error of the request, not a broken stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from cellwright.errors import SessionClosed
from cellwright.gateway.waiter import Waiter
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Event, Language

NDJSON: Final = "application/x-ndjson"


class CellStream:
    """One cell and its reader.

    Args:
        session: Where it is executed.
        code: Its code.
        language: Which kernel.
        deadline_s: Seconds until it is interrupted; None: what the session's Spec says.
    """

    def __init__(self, session: Session, code: str, language: Language, deadline_s: float | None) -> None:
        self._session = session
        self._code = code
        self._language = language
        self._deadline_s = deadline_s
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._leaving = asyncio.Event()
        self._is_told = False
        self._begun = asyncio.Event()
        self._cell: asyncio.Future[Cell] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Execute the cell, and wait for it while it is read; to be run in a task of its own. Raises nothing of the cell's."""
        leaving = asyncio.ensure_future(self._left())
        try:
            ongoing = self._session.begin(
                self._code, language=self._language, deadline_s=self._deadline_s, on_event=self._take
            )
            with ongoing.waited_for():
                cell = await Waiter(leaving).waits_for(ongoing.by(None))
                self._end(cell)
                await leaving
                if self._is_told:
                    ongoing.told(cell)
        except Exception as error:
            self._end(error)  # if the reader has left, it is lost on purpose
        finally:
            leaving.cancel()
            self._end(SessionClosed())  # cancelled: the service ends

    async def begun(self) -> None:
        """Wait for its first event or its end.

        Raises:
            CellwrightError: It was refused, or failed before anything came.
        """
        try:
            await self._begun.wait()
            if self._cell.done():
                self._cell.result()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Nobody reads it any more."""
        self._leaving.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield its lines; to be read once."""
        while line := await self._lines.get():
            yield line
        cell = self._cell.result()
        yield b'{"type":"cell","cell":' + cell.model_dump_json().encode() + b"}\n"
        self._is_told = True

    def response(self) -> Response:
        """Return the answer that consists of its lines."""
        return _Lines(self)

    async def _left(self) -> None:
        await self._leaving.wait()

    def _take(self, event: Event) -> None:
        self._begun.set()
        if not self._leaving.is_set():
            self._lines.put_nowait(event.model_dump_json().encode() + b"\n")

    def _end(self, how: Cell | Exception) -> None:
        """Say how it ended; the first word counts."""
        if self._cell.done():
            return
        if isinstance(how, Cell):
            self._cell.set_result(how)
        else:
            self._cell.set_exception(how)
            self._cell.exception()
        self._begun.set()
        self._lines.put_nowait(b"")


class _Lines(StreamingResponse):
    """The answer; when it ends, however it does, nobody reads any more."""

    def __init__(self, stream: CellStream) -> None:
        super().__init__(stream.lines(), media_type=NDJSON)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.leave()
