"""How a connection to the gateway is read, before there is a request that the guard could look at.

Flows in: bytes of whoever can connect. Flows out: requests. Decided here: how long the head of a request may be. The parser
itself takes a header without end, and h11, which has a limit, costs 3 ms more a request.
"""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES: Final = 64 * 1024


class BoundedHead(HttpToolsProtocol):
    """uvicorn's own protocol, that hangs up on a head of more than `HEAD_BYTES`, give or take one read."""

    _head_bytes = 0
    _head_is_whole = False

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._head_is_whole and self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"The head of the request has more than {HEAD_BYTES} bytes.")

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._head_bytes, self._head_is_whole = 0, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The rest is the body, and is counted by whoever reads it."""
        self._head_is_whole = True
        super().on_headers_complete()
