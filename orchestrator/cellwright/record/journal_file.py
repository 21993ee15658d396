"""The file of a journal while it is being written.

Flows in: lines as bytes. Flows out: the file that ends with the last whole one. Decided here: that one process at a time
writes it; one write(2) per line; and that where a line could not be written whole, no part of it stays, or, where not even
that can be done, nothing more is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from cellwright.errors import RecordError
from cellwright.record.blobs import as_record_error, write_all
from cellwright.record.lines import JOURNAL
from cellwright.record.lock import take_lock


class JournalFile:
    """An open journal, locked for this process. Made by `open`; not to be used by two threads at once."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """-1 once it is closed."""
        self.size_bytes = 0
        """Where its last whole line ends."""
        self._is_broken = False

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a run's journal, made if there is none; whoever finds lines in it sets `size_bytes`.

        Raises:
            RecordError: Another process is writing it, or it cannot be opened.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(folder / JOURNAL, flags, 0o600)
        except OSError as error:
            raise as_record_error(error, JOURNAL) from error
        try:
            take_lock(fd)
        except BlockingIOError as error:
            os.close(fd)
            raise RecordError(
                f"The run {folder.name} is being written by another process. It is still running. "
                "Nothing was changed. Wait for its end, or cancel it there."
            ) from error
        except OSError as error:
            os.close(fd)
            raise as_record_error(error, JOURNAL) from error
        return cls(fd)

    @property
    def is_open(self) -> bool:
        """False once it was closed."""
        return self.fd >= 0

    @property
    def takes_more(self) -> bool:
        """False once it was closed, or once a torn line stays at its end; opening the run again mends that."""
        return self.is_open and not self._is_broken

    def write(self, line: bytes) -> None:
        """Write a whole line.

        Raises:
            DiskFull: There is no room. No part of it stays.
            RecordError: It cannot be written for another reason.
        """
        try:
            write_all(self.fd, line)
        except BaseException as error:
            self.cut_back()
            if isinstance(error, OSError):
                raise as_record_error(error, JOURNAL) from error
            raise
        self.size_bytes += len(line)

    def cut_back(self) -> None:
        """Cut what stands after the last whole line."""
        try:
            os.ftruncate(self.fd, self.size_bytes)
        except OSError:
            self._is_broken = True

    def close(self) -> None:
        """Close it, and let go of the lock."""
        fd, self.fd = self.fd, -1
        os.close(fd)
