"""Memory that was freed goes back to the system.

Flows in: nothing. Flows out: a C library that keeps less. Decided here: which of its settings are not its own. It takes a
picture's buffers, once a few of them were freed, from a heap that never shrinks below what still lies above them: the
kernel host of an idle session held 52 to 79 MB of its own, and with this 38 to 41.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Names of glibc's `mallopt`, from malloc.h."""
_LARGE_BYTES: Final = 256 * 1024
_ARENAS: Final = 2
"""A heap for each thread is for programs whose threads allocate at the same time; ours hold Python's lock meanwhile."""


def keep_little() -> None:
    """Have what is large mapped by itself, and unmapped when it is freed; does nothing where the C library is another."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, _ARENAS)
