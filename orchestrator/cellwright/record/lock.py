"""Who is writing a run: one lock on the journal's open file.

Flows in: a file descriptor, or a run's folder. Flows out: the lock, or whether somebody holds it. Decided here: the
lock belongs to the open file description (F_OFD_SETLK), so it ends with its process however that ends, and a reader
can ask for it without taking it, which flock(2) cannot.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

_FLOCK: Final = "hhqqi0q"
"""`struct flock` of a 64-bit Linux."""


def take_lock(fd: int) -> None:
    """Lock the open file for writing until it is closed; raises BlockingIOError when another one has it."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the file's lock now; False when there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_RDLCK))
    except OSError:
        return False  # a file system without locks: nobody can be known to hold one
    finally:
        os.close(fd)
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
