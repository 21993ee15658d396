"""How fast what forgotten processes write is read.

Flows in: how much was read of pipes whose cell has ended. Flows out: whether more may be read now. Decided here: the pace.
A pipe that is not read makes its writer wait, which costs nobody anything, and one that is read as fast as it can be filled
(`yes`: 2 GiB/s) costs a core and puts hundreds of megabytes before the next cell's answer. It is never closed to a writer for good: a
server that logs a line with each request goes on.
"""

from __future__ import annotations

import time
from typing import Final

BYTES_PER_S: Final = 2 * 1024**2
"""The kernel host takes 1 MiB of text in 30 ms."""
BURST_BYTES: Final = 1024**2
"""After some quiet, so much is read at once."""
TELL_EVERY_S: Final = 1.0
"""How often it is told what ended cells say beyond their room: 64 KiB each time."""


class LatePace:
    """What may be read of the pipes of ended cells, all together."""

    def __init__(self) -> None:
        self._left = float(BURST_BYTES)
        self._since = time.monotonic()

    def allows(self) -> bool:
        """Whether something may be read now."""
        now = time.monotonic()
        self._left = min(BURST_BYTES, self._left + (now - self._since) * BYTES_PER_S)
        self._since = now
        return self._left > 0

    def spend(self, size_bytes: int) -> None:
        """Note what was read."""
        self._left -= size_bytes
