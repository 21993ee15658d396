"""How a connection to the gateway is read, before there is a request that the guard could look at.

Flows in: bytes of whoever can connect. Flows out: requests. Decided here: how long the head of a request may be, in bytes and
in seconds, and how many connections there may be: half of the files that the process may open, so that those who hold
connections and ask nothing leave the others to the sandboxes. The parser itself takes a header without end, and h11,
which has a limit, costs 3 ms more a request.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 * 1024
HEAD_S: Final = 20.0
"""Seconds from a connection, or from the first byte of a later request, until the head is whole."""
MOST: Final = 4096
"""Connections where there is hardly a limit of open files."""


class BoundedHead(HttpToolsProtocol):
    """uvicorn's own protocol, that hangs up on a head of more than `HEAD_BYTES`, give or take one read, or `HEAD_S`."""

    _head_bytes = 0
    _head_is_whole = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take it, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > _most():
            transport.abort()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._expect_none()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._head_is_whole and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of the request has more than {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._head_bytes, self._head_is_whole = 0, False
        if self._late is None:
            self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The rest is the body, and is counted by whoever reads it."""
        self._head_is_whole = True
        self._expect_none()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self._hang_up)

    def _expect_none(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        self.transport.close()


def _most() -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if files == resource.RLIM_INFINITY else min(MOST, files // 2)
