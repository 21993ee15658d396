"""A cell's events as lines of NDJSON, for as long as somebody reads them.

Flows in: a session and what to execute. Flows out: one line an event, and the finished cell as the last one. Decided
here: that a reader who leaves does not end the cell, which goes on to its end and into the journal; and that what is
wrong before the first event is an error of the request, not a broken stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from cellwright.errors import SessionClosed
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Event, Language


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
        self._is_read = True
        self._begun = asyncio.Event()
        self._cell: asyncio.Future[Cell] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Execute the cell to its end; to be run in a task of its own. Raises nothing of the cell's."""
        try:
            cell = await self._session.execute(
                self._code, language=self._language, deadline_s=self._deadline_s, on_event=self._take
            )
            self._cell.set_result(cell)
        except Exception as error:
            self._cell.set_exception(error)
            self._cell.exception()  # if the reader has left, it is lost on purpose
        finally:
            if not self._cell.done():  # cancelled: the service ends
                self._cell.set_exception(SessionClosed())
                self._cell.exception()
            self._begun.set()
            self._lines.put_nowait(b"")

    async def begun(self) -> None:
        """Wait for its first event or its end.

        Raises:
            CellwrightError: It was refused, or failed before anything came.
        """
        await self._begun.wait()
        if self._cell.done():
            self._cell.result()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield its lines; to be read once."""
        try:
            while line := await self._lines.get():
                yield line
            cell = self._cell.result()
        finally:
            self._is_read = False
        yield b'{"type":"cell","cell":' + cell.model_dump_json().encode() + b"}\n"

    def _take(self, event: Event) -> None:
        self._begun.set()
        if self._is_read:
            self._lines.put_nowait(event.model_dump_json().encode() + b"\n")
