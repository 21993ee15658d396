"""How large a request may be.

Flows in: requests that the guard let through. Flows out: the same, cut off where they grow beyond what any of them needs.
Decided here: the limit of everything but a file that is put into a sandbox, whose own is larger.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cellwright.errors import CodeTooLarge
from cellwright.gateway.auth import refusal
from cellwright.gateway.execute import BODY_BYTES


class Bounded:
    """ASGI middleware that reads no more of a request than `BODY_BYTES`.

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
        if _said_bytes(scope) > BODY_BYTES:
            await refusal(CodeTooLarge(_SENTENCE))(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > BODY_BYTES:
                raise HTTPException(CodeTooLarge.http_status, _SENTENCE)  # FastAPI makes 400 of any other kind
            return message

        await self._app(scope, counted, send)


_SENTENCE: Final = f"The request has more than {BODY_BYTES} bytes. Nothing ran."


def _said_bytes(scope: Scope) -> int:
    said = Headers(scope=scope).get("content-length", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0
