"""A tunnel: bytes of a WebSocket <-> bytes of one of a kernel's Unix sockets.

Flows in: a WebSocket of the outside, an open connection to the kernel. Flows out: the same bytes on the other side; no
byte is looked at. Decided here: how much is passed on at once; that it ends with either side; and that a reader who
stops reading loses it, because what waits for him waits in the kernel's memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

CHUNK_BYTES: Final = 64 * 1024
"""Largest WebSocket message, both ways."""
_STUCK_S: Final = 60.0
"""Seconds that either side may refuse to take the next bytes."""
_CLOSE_S: Final = 2.0
"""Seconds that either side has for reading what it was still sent."""


async def tunnel(websocket: WebSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accept the WebSocket and pass bytes both ways until one side ends, then end the other."""
    try:
        await websocket.accept()
        ways = [asyncio.ensure_future(way) for way in (_inwards(websocket, writer), _outwards(websocket, reader))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):  # it has closed it, or reads nothing
            async with asyncio.timeout(_CLOSE_S):
                await websocket.close()
    finally:
        writer.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await writer.wait_closed()
        except OSError:  # it broke, or took too long: a kernel that reads nothing would be waited for without an end
            writer.transport.abort()


async def _inwards(websocket: WebSocket, writer: asyncio.StreamWriter) -> None:
    while True:
        data = await websocket.receive_bytes()
        async with asyncio.timeout(_STUCK_S):
            writer.write(data)
            await writer.drain()


async def _outwards(websocket: WebSocket, reader: asyncio.StreamReader) -> None:
    while data := await reader.read(CHUNK_BYTES):
        async with asyncio.timeout(_STUCK_S):
            await websocket.send_bytes(data)
