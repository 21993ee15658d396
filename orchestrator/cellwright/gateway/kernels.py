"""The way to a session's kernels for a Jupyter client: `/v1/sessions/{id}/kernels/{language}`.

Flows in: requests and WebSockets of whoever holds the token. Flows out: what a client must know of a kernel, and the bytes
of its sockets. Decided here: nothing is looked at on the way, nothing larger than a chunk is taken at once, and a
refusal is an HTTP answer with a sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from cellwright.errors import CellwrightError
from cellwright.gateway.auth import refusal
from cellwright.gateway.described import KERNELS
from cellwright.gateway.sessions import ASession
from cellwright.pool import Pool
from cellwright.sandbox.tunnel import CLOSE_S
from cellwright_kernel.wire import Channel, KernelConnection, Language

router = APIRouter(prefix="/v1/sessions/{session_id}/kernels/{language}")


@router.get("/connection", responses=KERNELS)
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
            await inside.carry(_messages(websocket), websocket.send_bytes)
            with contextlib.suppress(
                RuntimeError, WebSocketDisconnect, TimeoutError
            ):  # it has closed it, or reads nothing
                async with asyncio.timeout(CLOSE_S):
                    await websocket.close()
    except CellwrightError as error:
        await websocket.send_denial_response(refusal(error))


async def _messages(websocket: WebSocket) -> AsyncIterator[bytes]:
    """Yield what a client sends, until it leaves or says something that is no bytes."""
    while (data := (await websocket.receive()).get("bytes")) is not None:
        yield data
