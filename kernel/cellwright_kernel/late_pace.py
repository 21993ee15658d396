"""How fast what forgotten processes write is read.

Flows in: nothing. Flows out: a pace, in bytes, for the pipes of ended cells, all together. Decided here: its numbers.
A pipe that is not read makes its writer wait, which costs nobody anything, and one that is read as fast as it can be filled
(`yes`: 2 GiB/s) costs a core and puts hundreds of megabytes before the next cell's answer. It is never closed to a writer for good: a
server that logs a line with each request goes on.
"""

from __future__ import annotations

from typing import Final

from cellwright_kernel.pace import Pace

BYTES_PER_S: Final = 2 * 1024**2
"""The kernel host takes 1 MiB of text in 30 ms."""
BURST_BYTES: Final = 1024**2
"""After some quiet, so much is read at once."""
TELL_EVERY_S: Final = 1.0
"""How often it is told what ended cells say beyond their room: 64 KiB each time."""


def late_pace() -> Pace:
    """Return a new one, after some quiet; what was read is known, and spent, only afterwards."""
    return Pace(BYTES_PER_S, burst=BURST_BYTES)
