"""What is told outside of the browser's HTTPS, in line until it is taken.

Flows in: messages. Flows out: their lines, in order. Decided here: how much may wait, and how much is told of one cell; what
comes beyond that is only counted, but for the ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final

from cellwright_kernel.wire_https import (
    HTTPS_MESSAGE_BYTES,
    HttpsAsked,
    HttpsBegan,
    HttpsEnded,
    HttpsExchanged,
    HttpsMessage,
    HttpsMissed,
    HttpsSent,
)

_WAITING_BYTES: Final = 64 * 1024**2
_CELL_BYTES: Final = 160 * 1024**2
"""Most of one cell; with what may wait still of the cell before, it is less than the outside listens to."""


class Telling:
    """One stream of messages.

    Args:
        executing: Returns the number of the cell that runs; None between cells.
    """

    def __init__(self, executing: Callable[[], int | None]) -> None:
        self._executing = executing
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._cell: int | None = None
        self._cell_bytes = 0
        self._missed = 0
        self._has_more = asyncio.Event()
        self._is_over = False
        self._has_begun = False

    def begin(self) -> None:
        """Say that the browser is looked at; once."""
        if not self._has_begun:
            self._has_begun = True
            self.tell(HttpsBegan())

    def tell(self, message: HttpsMessage) -> bool:
        """Tell one message; return whether there was room for it."""
        if self._is_over:
            return False
        line = message.model_dump_json().encode() + b"\n"
        if isinstance(message, HttpsExchanged | HttpsSent | HttpsAsked) and not self._has_room(len(line)):
            self._missed += isinstance(message, HttpsExchanged)
            return False
        self._waiting_bytes += len(line)
        self._cell_bytes += len(line) + HTTPS_MESSAGE_BYTES
        self._lines.append(line)
        self._has_more.set()
        return True

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
                self._waiting_bytes -= len(line)
                yield line
            if self._is_over:
                return
            self._has_more.clear()
            await self._has_more.wait()

    def _has_room(self, size: int) -> bool:
        cell = self._executing()
        if cell is not None and cell != self._cell:
            self._cell, self._cell_bytes = cell, 0
        of_cell = self._cell_bytes + size + HTTPS_MESSAGE_BYTES
        return self._waiting_bytes + size <= _WAITING_BYTES and of_cell <= _CELL_BYTES
