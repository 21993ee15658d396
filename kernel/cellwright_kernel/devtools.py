"""One connection to a Chromium's DevTools: calls out, replies and events back, strictly one after another.

Flows in: method names and parameters. Flows out: results, and the events that came meanwhile, in order.
Decided here: that a call has an end, and that there is no background task: events wait in line until they are asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_CALL_S = 5.0
"""The end of a call. A page that is busy, or shows a dialog, does not answer an evaluation."""
_CLOSE_S = 0.5
"""How long Chromium, which may hang, has to agree that the connection ends; 1 ms is usual."""


class DevtoolsError(Exception):
    """A call was refused, was not answered in time, or the connection is gone."""


class NotAnswered(DevtoolsError):
    """A call was not answered in time."""


class Refused(DevtoolsError):
    """A call was answered with an error; the connection goes on."""


class Devtools:
    """A connection to the browser as a whole; pages are reached through sessions."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._events: deque[dict[str, Any]] = deque()
        self._last_id = 0

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to `url`, a `ws:` address.

        Raises:
            DevtoolsError: nobody answers there.
        """
        try:
            # A screenshot is larger than the library's limit of 1 MiB; loopback is never proxied.
            options: dict[str, Any] = {"max_size": None, "proxy": None, "compression": None, "ping_interval": None}
            return cls(await connect(url, open_timeout=_CALL_S, close_timeout=_CLOSE_S, **options))
        except (OSError, InvalidHandshake) as error:
            raise DevtoolsError(f"The browser's DevTools could not be reached: {error}") from error

    @classmethod
    @asynccontextmanager
    async def opened(cls, url: str) -> AsyncIterator[Self]:
        """As `open`, and close at the end of the block."""
        devtools = await cls.open(url)
        try:
            yield devtools
        finally:
            await devtools.close()

    async def call(
        self, method: str, session: str | None = None, within_s: float = _CALL_S, **parameters: object
    ) -> dict[str, Any]:
        """Call `method` and return its result.

        Args:
            method: Such as `Target.getTargets`.
            session: Id of an attached target's session; absent: the browser itself.
            within_s: The end of the wait.
            parameters: As the protocol names them.

        Raises:
            DevtoolsError: it was refused, not answered in time, or the connection is gone.
        """
        try:
            async with asyncio.timeout(within_s):
                reply = await self._reply(await self._send(method, session, parameters))
        except TimeoutError as error:
            raise NotAnswered(f"{method} was not answered within {within_s:g} s.") from error
        except ConnectionClosed as error:
            raise DevtoolsError(f"{method} was not answered: the connection is closed.") from error
        if "error" in reply:
            raise Refused(f"{method} was refused: {reply['error'].get('message')}")
        result: dict[str, Any] = reply["result"]
        return result

    async def tell(self, method: str, session: str) -> None:
        """Call `method` of a session, and leave its reply: the next call's comes after the events that it has at once.

        Raises:
            DevtoolsError: the connection is gone.
        """
        try:
            await self._send(method, session, {})
        except ConnectionClosed as error:
            raise DevtoolsError(f"{method} was not sent: the connection is closed.") from error

    def events_of(self, session: str) -> list[dict[str, Any]]:
        """Return the events of a session that have come and that `event` has not returned yet."""
        return [event for event in self._events if event.get("sessionId") == session]

    async def evaluate(self, session: str, expression: str, within_s: float = _CALL_S) -> object:
        """Evaluate JavaScript in a page and return its value, which is whatever the page makes of it.

        Raises:
            DevtoolsError: as for `call`, or the page threw.
        """
        reply = await self.call("Runtime.evaluate", session, within_s, expression=expression, returnByValue=True)
        if "exceptionDetails" in reply:
            raise DevtoolsError(f"The page threw: {reply['exceptionDetails'].get('text')}")
        value: object = reply["result"].get("value")
        return value

    async def event(self) -> dict[str, Any]:
        """Return the next event, in the order in which they came.

        Raises:
            DevtoolsError: the connection is gone.
        """
        while not self._events:
            try:
                self._take(json.loads(await self._socket.recv()))
            except ConnectionClosed as error:
                raise DevtoolsError("The connection to the browser's DevTools is closed.") from error
        return self._events.popleft()

    async def close(self) -> None:
        """Close the connection; safe to call twice."""
        await self._socket.close()

    async def _send(self, method: str, session: str | None, parameters: dict[str, object]) -> int:
        self._last_id += 1
        call_id = self._last_id
        call = {"id": call_id, "method": method, "params": parameters}
        if session is not None:
            call["sessionId"] = session
        await self._socket.send(json.dumps(call))
        return call_id

    async def _reply(self, call_id: int) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(await self._socket.recv())
            if message.get("id") == call_id:
                return message
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:  # the reply to a call that was given up is dropped
            self._events.append(message)
