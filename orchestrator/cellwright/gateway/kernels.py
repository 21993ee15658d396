"""The way to a session's kernels for a Jupyter client: `/v1/sessions/{id}/kernels/{language}`.

Flows in: requests and WebSockets of whoever holds the token. Flows out: what a client must know of a kernel, and the bytes
of its sockets. Decided here: nothing is looked at on the way, nothing larger than a chunk is taken at once, and a
refusal is an HTTP answer with a sentence.
"""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from cellwright.errors import CellwrightError
from cellwright.gateway.auth import refusal
from cellwright.gateway.sessions import ASession
from cellwright.pool import Pool
from cellwright.sandbox.tunnel import Tunnel
from cellwright_kernel.wire import Channel, KernelConnection, Language

router = APIRouter(prefix="/v1/sessions/{session_id}/kernels/{language}")


@router.get("/connection")
async def connection(session: ASession, language: Language) -> KernelConnection:
    """Tell what a Jupyter client must know of a kernel, which is started if there is none."""
    return await session.attached.connection(language)


@router.websocket("/{channel}")
async def tunnel(websocket: WebSocket, session_id: str, language: Language, channel: Channel, kernel_id: str) -> None:
    """Pass bytes to and from one socket of a kernel."""
    pool: Pool = websocket.app.state.pool
    try:
        session = pool.existing(session_id)
        async with session.attached.tunnel(language, channel, kernel_id) as inside:
            await websocket.accept()
            await _pass_both_ways(websocket, inside)
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client has closed it already
                await websocket.close()
    except CellwrightError as error:
        await websocket.send_denial_response(refusal(error))


async def _pass_both_ways(websocket: WebSocket, inside: Tunnel) -> None:
    """Until one side ends."""
    ways = [asyncio.ensure_future(way) for way in (_inwards(websocket, inside), _outwards(websocket, inside))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _inwards(websocket: WebSocket, inside: Tunnel) -> None:
    while await inside.send(await websocket.receive_bytes()):
        pass


async def _outwards(websocket: WebSocket, inside: Tunnel) -> None:
    async for data in inside.received():
        await websocket.send_bytes(data)
