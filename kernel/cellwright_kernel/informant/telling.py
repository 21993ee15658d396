"""What is told outside of the browser's HTTPS, in line until it is taken.

Flows in: messages. Flows out: their lines, in order. Decided here: how much may wait; what comes beyond that is only counted,
but for what a page waits for, and the ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from cellwright_kernel.wire_https import HttpsBegan, HttpsEnded, HttpsExchanged, HttpsMessage, HttpsMissed, HttpsSent

_WAITING_BYTES: Final = 64 * 1024**2


class Telling:
    """One stream of messages."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._missed = 0
        self._has_more = asyncio.Event()
        self._is_over = False
        self._has_begun = False

    def begin(self) -> None:
        """Say that the browser is looked at; once."""
        if not self._has_begun:
            self._has_begun = True
            self.tell(HttpsBegan())

    def tell(self, message: HttpsMessage) -> None:
        """Tell one message."""
        if self._is_over:
            return
        line = message.model_dump_json().encode() + b"\n"
        if isinstance(message, HttpsExchanged | HttpsSent) and self._bytes + len(line) > _WAITING_BYTES:
            self.missed(1)
            return
        self._bytes += len(line)
        self._lines.append(line)
        self._has_more.set()

    def missed(self, exchanges: int) -> None:
        """Count exchanges that are not told."""
        self._missed += exchanges

    def end(self) -> None:
        """Say the last word, after what waits still."""
        if self._missed:
            self.tell(HttpsMissed(exchanges=self._missed))
        self.tell(HttpsEnded())
        self._is_over = True
        self._has_more.set()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield lines until the end."""
        while True:
            while self._lines:
                line = self._lines.popleft()
                self._bytes -= len(line)
                yield line
            if self._is_over:
                return
            self._has_more.clear()
            await self._has_more.wait()
