"""One connection to a Chromium's DevTools on which many calls are under way at once.

Flows in: calls; they are sent in their order, and nobody has to wait for one before the next. Flows out: replies, and events as
they come. Decided here: that an event is taken in one go, without waiting for anything: what a page waits for is asked at once.

`devtools.py` is the other way: one call after another, and no background task.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from cellwright_kernel.devtools import DevtoolsError, NotAnswered, Refused

_OPEN_S: Final = 5.0
_CLOSE_S: Final = 0.5

Event = dict[str, Any]


class Pipe:
    """A connection; made by `open`, and used while `run` runs."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._calls: asyncio.Queue[str] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[Event]] = {}
        self._last_id = 0
        self._is_over = False

    @classmethod
    async def open(cls, url: str) -> Pipe:
        """Connect to `url`, a `ws:` address.

        Raises:
            DevtoolsError: nobody answers there.
        """
        try:
            options: dict[str, Any] = {"max_size": None, "proxy": None, "compression": None, "ping_interval": None}
            return cls(await connect(url, open_timeout=_OPEN_S, close_timeout=_CLOSE_S, **options))
        except (OSError, InvalidHandshake) as error:
            raise DevtoolsError(f"The browser's DevTools could not be reached: {error}") from error

    async def run(self, take: Callable[[Event], None]) -> None:
        """Send calls, and take what comes, until the connection is gone."""
        writing = asyncio.ensure_future(self._write())
        try:
            async for text in self._socket:
                message: Event = json.loads(text)
                if "id" not in message:
                    with suppress(LookupError, TypeError, ValueError):  # another Chromium has it in another shape
                        take(message)
                elif (reply := self._replies.pop(message["id"], None)) is not None and not reply.done():
                    reply.set_result(message)
        except ConnectionClosed:
            pass
        finally:
            self._is_over = True
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            for reply in self._replies.values():
                reply.cancel()
            await self._socket.close()

    def tell(self, method: str, session: str | None = None, **parameters: object) -> None:
        """Call `method`, and leave its reply."""
        self._send(method, session, parameters)

    def ask(self, method: str, session: str | None = None, **parameters: object) -> asyncio.Future[Event]:
        """Call `method`, and return its reply to come, an error among them; it is cancelled where the connection ends."""
        reply: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        number = self._send(method, session, parameters)
        if self._is_over:
            reply.cancel()
        else:
            self._replies[number] = reply
        return reply

    async def call(
        self, method: str, session: str | None = None, *, within_s: float, **parameters: object
    ) -> dict[str, Any]:
        """Call `method` and return its result.

        Raises:
            DevtoolsError: it was refused, not answered in time, or the connection is gone.
        """
        reply = self.ask(method, session, **parameters)
        await asyncio.wait({reply}, timeout=within_s)
        if reply.cancelled():
            raise DevtoolsError(f"{method} was not answered: the connection is closed.")
        if not reply.done():
            raise NotAnswered(f"{method} was not answered within {within_s:g} s.")
        message = reply.result()
        if "error" in message:
            raise Refused(f"{method} was refused: {message['error'].get('message')}")
        result: dict[str, Any] = message["result"]
        return result

    def _send(self, method: str, session: str | None, parameters: dict[str, object]) -> int:
        self._last_id += 1
        call: Event = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            call["sessionId"] = session
        self._calls.put_nowait(json.dumps(call))
        return self._last_id

    async def _write(self) -> None:
        while True:
            await self._socket.send(await self._calls.get())
