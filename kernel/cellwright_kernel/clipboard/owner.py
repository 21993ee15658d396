"""The clipboard's place in the kernel host: it outlives cells, kernels and the programs that copy.

Flows in: the display's name; requests of kernels on a Unix socket. Flows out: texts. Decided here: one request a
connection: a line of JSON, `{"do": "read" | "write", "selection": "CLIPBOARD" | "PRIMARY", "bytes": N}`, then N bytes
of UTF-8; the answer has the same form, with `error` in place of `do` where there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any, Final, get_args

from cellwright_kernel.clipboard.errors import MOST_BYTES, ClipboardError, DisplayEnded
from cellwright_kernel.clipboard.selections import Name, Selections

_REQUEST_S: Final = 20.0
_WAITING: Final = 1024
"""Calls that wait to be taken; the usual 100 are fewer than a cell may make at once."""
_NEW_DISPLAY_S: Final = 8.0
"""How long a request waits where the display has just ended: a new one is there in about a second."""


class ClipboardOwner:
    """Owns the clipboard of a display and answers the kernels.

    Args:
        socket: Where to listen; only this user can reach it.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._selections: Selections | None = None
        self._server: asyncio.Server | None = None
        self._next_start = asyncio.Event()

    async def start(self, display: str) -> None:
        """Listen, and own again what was owned when the display was lost; does so anew when called again.

        Without a clipboard everything else is as usable as with one, so that a fault is said where it is used.
        """
        if self._selections is None:
            self._selections = Selections(display)
        with contextlib.suppress(ClipboardError):
            await asyncio.to_thread(self._selections.start)
        started, self._next_start = self._next_start, asyncio.Event()
        started.set()
        if self._server is None:
            await self._listen()

    async def see_socket(self) -> None:
        """Listen anew where the socket was removed: it is a file of the user that cells have too, and nothing else tells of its end."""
        if self._server is not None and not self.socket.exists():
            self._server.close()
            await self._listen()

    async def _listen(self) -> None:
        self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._server = await asyncio.start_unix_server(self._answer, self.socket, backlog=_WAITING)

    async def stop(self) -> None:
        """End it all; safe to call twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._selections is not None:
            await asyncio.to_thread(self._selections.stop)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            async with asyncio.timeout(_REQUEST_S):
                answer, text = await self._answered(reader)
                writer.write(json.dumps({**answer, "bytes": len(text)}).encode() + b"\n")
                writer.write(text)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _answered(self, reader: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
        assert self._selections is not None  # noqa: S101 - for the type checker; it was made before the server
        try:
            do, name, size = _wish(await _line(reader))
            text = await reader.readexactly(size)
            next_start = self._next_start
            try:
                return {}, await self._done(do, name, text)
            except DisplayEnded:
                async with asyncio.timeout(_NEW_DISPLAY_S):
                    await next_start.wait()
                return {}, await self._done(do, name, text)
        except TimeoutError:
            return {"error": "The display has ended, and no new one came. The clipboard cannot be used."}, b""
        except ClipboardError as error:
            return {"error": str(error), "is_no_text": error.is_no_text}, b""

    async def _done(self, do: str, name: Name, text: bytes) -> bytes:
        assert self._selections is not None  # noqa: S101 - as above
        if do == "read":
            return await asyncio.wrap_future(self._selections.read(name))
        await asyncio.wrap_future(self._selections.write(name, text))
        return b""


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        raise ClipboardError("This is no request to the clipboard: its first line has no end.") from None


def _wish(line: bytes) -> tuple[str, Name, int]:
    try:
        request = json.loads(line)
        do, name, size = request["do"], request["selection"], int(request["bytes"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ClipboardError(f"This is no request to the clipboard: {error!r}") from None
    if do not in ("read", "write") or name not in get_args(Name) or not 0 <= size <= MOST_BYTES:
        raise ClipboardError(f"This is no request to the clipboard: {do!r}, {name!r}, {size} bytes")
    return do, name, size
