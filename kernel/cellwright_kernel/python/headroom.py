"""Room for the kernel itself, when a cell has used up the memory that its process may have.

Flows in: the limit that the process was started with, and the moments at which a cell got no more, and ended. Flows
out: a limit that is a little higher, so that the kernel can say so, and the next cell can free something. Decided here:
how much. A cell that filled the memory with small objects left so little that the kernel died of it, by SIGSEGV or an
exception of its own.
"""

from __future__ import annotations

import mmap
import os
import resource
from pathlib import Path
from typing import Final

_ROOM_BYTES: Final = 32 * 1024**2
"""Above what a cell has left in use; to tell of its error takes some 2."""
_BALLAST_BYTES: Final = 4 * 1024**2
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_USED: Final = Path("/proc/self/statm")
_DATA: Final = 5
"""Which of its fields counts what RLIMIT_DATA counts, in pages."""


class Headroom:
    """What lies between the soft and the hard limit; nothing where there is no limit."""

    def __init__(self) -> None:
        self.ballast: mmap.mmap | None = _mapped(_BALLAST_BYTES)
        """To be let go of before `open` is called, which takes some memory itself."""
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_DATA)
        self._now = self._soft
        self._is_there = self._soft != self._hard and resource.RLIM_INFINITY not in {self._soft, self._hard}

    def open(self) -> None:
        """Let the kernel have it: its cell got no more memory."""
        if self._is_there:
            self._set(self._hard)

    def close(self) -> None:
        """After a cell: keep room above what is in use now, but no more where the cell's own limit leaves that much."""
        if not self._is_there or (self.ballast is not None and self._now == self._soft and _has_room()):
            return
        self._set(self._hard)
        self.ballast = self.ballast or _mapped(_BALLAST_BYTES)
        used = int(_USED.read_bytes().split()[_DATA]) * _PAGE
        self._set(min(self._hard, max(self._soft, used + _ROOM_BYTES)))

    def _set(self, soft: int) -> None:
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, self._hard))
            self._now = soft
        except (OSError, ValueError):  # the code has set limits of its own
            self._is_there = False


def _has_room() -> bool:
    """Whether so much could be had now; asked after each cell, since one may have caught its MemoryError."""
    try:
        _mapped(_ROOM_BYTES).close()
    except (OSError, MemoryError):
        return False
    return True


def _mapped(size: int) -> mmap.mmap:
    """Counts, and takes no memory.

    Mapped, since the frame of a call may need a mapping too, and what malloc frees it keeps.
    """
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
