"""Memory that was freed goes back to the system.

Flows in: nothing. Flows out: a C library that keeps less. Decided here: which of its settings are not its own, and that
the holes in its heap are given back after each picture. Left to itself it takes a picture's buffers, once a few of them
were freed, from a heap that never shrinks below what still lies above them: the kernel host of an idle session held 52
to 79 MB of its own, and with this 38 to 41; after 400 page loads, each with a picture, 96 to 102 MB resident, and with
this 64 to 75.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
"""Names of glibc's `mallopt`, from malloc.h."""
_LARGE_BYTES: Final = 1024 * 1024
"""Not below 256 KiB: so much asyncio takes for each read from a socket, which took 27 microseconds longer."""
_ARENAS: Final = 2
"""A heap for each thread is for programs whose threads allocate at the same time; ours hold Python's lock meanwhile."""

_library = ctypes.CDLL(None)


def keep_little() -> None:
    """Have what is large mapped by itself, and unmapped when it is freed; nothing where the C library is another."""
    if hasattr(_library, "mallopt"):
        _library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        _library.mallopt(_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Give back the free pages between what is in use, which takes 0.2 ms; does nothing as above."""
    if hasattr(_library, "malloc_trim"):
        _library.malloc_trim(0)
