"""How many requests the gateway takes: at once, and a second.

Flows in: requests that the guard let through. Flows out: the same, or 429 with the seconds to wait. Decided here: one user's
service has one pace, whoever asks with the token; it is far beyond what clients that wait for answers need, and is
there for those that run wild. Requests without the token never use it up, so that nobody locks the user out.
"""

from __future__ import annotations

import math
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from cellwright.errors import TooManyRequests
from cellwright.gateway.auth import is_health, refusal
from cellwright.gateway.request_pace import request_pace

A_SECOND: Final = 1000.0
"""A client that waits for each answer got 190 cells a second, or 750 of the cheapest answers, on two cores."""


def usual_at_once(sessions: int) -> int:
    """Return how many requests may be open at once, unless it was said: a cell and three Jupyter clients for each session."""
    return 128 + 16 * sessions


class Limited:
    """ASGI middleware that passes on what is within the pace.

    Args:
        app: What the requests are for.
        a_second: Most requests a second, over some seconds.
        at_once: Most requests and WebSockets that are open at the same time.
    """

    def __init__(self, app: ASGIApp, *, a_second: float, at_once: int) -> None:
        self._app = app
        self._pace = request_pace(a_second)
        self._a_second = a_second
        self._at_once = at_once
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] not in {"http", "websocket"} or is_health(scope):  # the guard counts those
            await self._app(scope, receive, send)
            return
        if (refused := self._refused()) is not None:
            await refusal(refused)(scope, receive, send)
            return
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1

    def _refused(self) -> TooManyRequests | None:
        if self._open >= self._at_once:
            return TooManyRequests(
                f"{self._open} requests are open, and that is the most. Usually a client asks again without waiting for its answers. "
                "Nothing ran. Wait for some of them, or start the service with a larger --max-requests.",
            )
        if wait_s := self._pace.take():
            return TooManyRequests(
                f"More than {self._a_second:g} requests a second came for some time. Usually a client asks in a loop without a "
                "pause. Nothing ran. Ask less often, or start the service with a larger --max-rate.",
                retry_after_s=math.ceil(wait_s),
            )
        return None
