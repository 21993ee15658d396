"""One end of a tunnel: bytes to and from one socket of a kernel, as messages of a WebSocket.

Flows in: where the other end is: the gateway, or the kernel host behind its Unix socket. Flows out: the bytes that come
back, unread and of a bounded size at a time. Decided here: that nothing is compressed, that no proxy of the environment
is asked, and what a refusal by the other end means.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

CHUNK_BYTES: Final = 64 * 1024
"""Largest message; the kernel host and the gateway take no larger one either."""
_OPEN_S: Final = 30.0
"""Seconds until it is open; a kernel may have to be started first."""
_CLOSE_S: Final = 2.0


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
        "close_timeout": _CLOSE_S,
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
        await connection.close()
