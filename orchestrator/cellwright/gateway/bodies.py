"""How large a request may be.

Flows in: requests that the guard let through. Flows out: the same, cut off where they grow beyond what any of them needs.
Decided here: the limit of everything but a file that is put into a sandbox, whose own is larger; and that a request which
says its size is refused before it is read.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.errors import CellwrightError, CodeTooLarge
from cellwright.gateway.auth import refusal
from cellwright_kernel.wire import POST_BYTES

TOO_LARGE: Final = f"The request has more than {POST_BYTES} bytes. Nothing ran."


async def bounded_body(request: Request, limit: int, too_large: CellwrightError) -> bytes:
    """Read a request's body, at most `limit` bytes of it.

    Raises:
        CellwrightError: It has more; `too_large` is raised.
    """
    if _said_bytes(request.scope) > limit:
        raise too_large
    body = BytesIO()  # its value is not copied, and a file may have 512 MiB
    async for chunk in request.stream():
        body.write(chunk)
        if body.tell() > limit:
            raise too_large
    return body.getvalue()


class Bounded:
    """ASGI middleware that reads no more of a request than `POST_BYTES`.

    Args:
        app: What the requests are for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] != "http" or scope["method"] == "PUT":  # PUT is for files, which are counted where they go
            await self._app(scope, receive, send)
            return
        if _said_bytes(scope) > POST_BYTES:
            await refusal(CodeTooLarge(TOO_LARGE))(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > POST_BYTES:  # FastAPI makes 400 of any other kind
                raise HTTPException(CodeTooLarge.http_status, TOO_LARGE) from CodeTooLarge(TOO_LARGE)
            return message

        await self._app(scope, counted, send)


def _said_bytes(scope: Scope) -> int:
    said = Headers(scope=scope).get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
