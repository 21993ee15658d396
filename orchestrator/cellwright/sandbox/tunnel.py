"""One end of a tunnel: bytes to and from one socket of a kernel, as messages of a WebSocket.

Flows in: where the other end is: the gateway, or the kernel host behind its Unix socket. Flows out: the bytes that come
back, unread and of a bounded size at a time. Decided here: that nothing is compressed, that no proxy of the environment
is asked, what a refusal by the other end means; and that who takes no more bytes for a minute loses the tunnel, because
what waits for him waits in a kernel's memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

CHUNK_BYTES: Final = 64 * 1024
"""Largest message; the kernel host and the gateway take no larger one either."""
_OPEN_S: Final = 30.0
"""Seconds until it is open; a kernel may have to be started first."""
CLOSE_S: Final = 2.0
"""Seconds that the other end has for its part of closing."""
STUCK_S: Final = 60.0
"""Seconds that either side may refuse to take the next bytes."""


class TunnelRefused(Exception):
    """The other end did not open it.

    Args:
        status: Its HTTP status; 0 when it did not answer.
        said: Its words, at most 500 characters.
    """

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"status {status}: {said}")
        self.status = status
        self.said = said


class Tunnel:
    """An open tunnel. Made by `open_tunnel`."""

    def __init__(self, connection: ClientConnection, on_send: Callable[[], None]) -> None:
        self._connection = connection
        self._on_send = on_send

    async def send(self, data: bytes) -> bool:
        """Send bytes; False when it has ended."""
        self._on_send()
        try:
            for at in range(0, len(data), CHUNK_BYTES):
                await self._connection.send(data[at : at + CHUNK_BYTES])
        except ConnectionClosed:
            return False
        return True

    async def received(self) -> AsyncIterator[bytes]:
        """Yield bytes until it ends."""
        try:
            async for message in self._connection:
                if isinstance(message, str):
                    return
                yield message
        except ConnectionClosed:
            return

    async def carry(self, source: AsyncIterator[bytes], sink: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass bytes both ways until one side ends, breaks, or takes none for `STUCK_S`.

        Args:
            source: Bytes to send.
            sink: Takes what is received; returns once there is room for more.
        """
        ways = [asyncio.ensure_future(way) for way in (self._send_all(source), self._hand_on(sink))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _send_all(self, source: AsyncIterator[bytes]) -> None:
        async for data in source:
            async with asyncio.timeout(STUCK_S):
                if not await self.send(data):
                    return

    async def _hand_on(self, sink: Callable[[bytes], Awaitable[None]]) -> None:
        async for data in self.received():
            async with asyncio.timeout(STUCK_S):
                await sink(data)


@asynccontextmanager
async def open_tunnel(
    url: str,
    *,
    socket_path: Path | None = None,
    token: str | None = None,
    on_send: Callable[[], None] = lambda: None,
) -> AsyncIterator[Tunnel]:
    """Open a tunnel, and close it at the end.

    Args:
        url: `ws://...` or `wss://...`.
        socket_path: Unix socket of the other end; absent: TCP, as the URL says.
        token: The service token, where one is asked for.
        on_send: Called each time that something is sent.

    Raises:
        TunnelRefused: The other end did not open it.
    """
    options: dict[str, Any] = {
        "compression": None,
        "proxy": None,
        "max_size": CHUNK_BYTES,
        "open_timeout": _OPEN_S,
        "close_timeout": CLOSE_S,
        "additional_headers": {"Authorization": f"Bearer {token}"} if token else None,
    }
    opening = connect(url, **options) if socket_path is None else unix_connect(str(socket_path), url, **options)
    try:
        connection = await opening
    except InvalidStatus as error:
        said = (error.response.body or b"")[:500].decode("utf-8", "replace")
        raise TunnelRefused(error.response.status_code, said) from error
    except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
        raise TunnelRefused(0, f"{error or type(error).__name__}") from error
    try:
        yield Tunnel(connection, on_send)
    finally:
        await _close(connection)


async def _close(connection: ClientConnection) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await connection.close()
    except TimeoutError:  # its own limit does not hold while the other end takes nothing of what was sent before
        connection.transport.abort()
        await connection.wait_closed()
