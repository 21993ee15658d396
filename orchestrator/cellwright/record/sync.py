"""Brings what was written to the disk itself, off the hot path.

Flows in: word that a file was written. Flows out: fsync of it, by one background thread that whoever opened it ends
with `close`. Decided here: blobs come before the record that names them, and many writes share one fsync: unless somebody
waits for it, the thread lets a quarter of a second go by, and is not woken meanwhile. To wake it at each record of each
cell cost 0.4 ms a cell.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from cellwright.record.blobs import as_record_error

GATHER_S: Final = 0.25
"""Seconds from a write to the fsync that it shares with those that follow it."""


class Sync:
    """One thread that fsyncs one journal and its blobs."""

    def __init__(self, fd: int, folder: Path) -> None:
        self._fd = fd
        self._folder = folder
        self._changed = threading.Condition()
        self._files: list[Path] = []
        self._written = 1  # the folder itself, run.json and the journal's name in it
        self._synced = 0
        self._failed: OSError | None = None
        self._stopping = False
        self._is_idle = False
        self._waiting = 0
        self._thread = threading.Thread(target=self._work, name=f"sync {folder.name}", daemon=True)
        self._thread.start()

    def wrote(self, file: Path | None = None) -> None:
        """Take note of a write: to the journal, or of a new file."""
        with self._changed:
            self._written += 1
            if file is not None:
                self._files.append(file)
            if self._is_idle:
                self._is_idle = False
                self._changed.notify_all()

    def wait(self) -> None:
        """Return once everything written so far is on the disk.

        Raises:
            RecordError: when the system could not bring it there.
        """
        with self._changed:
            wanted = self._written
            self._waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._synced >= wanted or self._failed is not None)
            self._waiting -= 1
            if self._failed is not None:
                raise as_record_error(self._failed, "journal.jsonl")

    def close(self) -> None:
        """Finish the work, end the thread, and return; raises as `wait` does. Safe to call twice."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()
        if self._failed is not None:
            raise as_record_error(self._failed, "journal.jsonl")

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_idle = self._synced == self._written
                self._changed.wait_for(lambda: self._stopping or self._synced < self._written)
                if self._synced == self._written:
                    return
                self._changed.wait_for(lambda: self._stopping or self._waiting, GATHER_S)
                wanted, files, self._files = self._written, self._files, []
            try:
                self._bring(files)
            except OSError as error:
                with self._changed:
                    self._failed = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._synced = wanted
                self._changed.notify_all()

    def _bring(self, files: list[Path]) -> None:
        for path in files:
            _fsync(path)
        if files or self._synced == 0:
            _fsync(self._folder / "blobs")
            _fsync(self._folder)
            _fsync(self._folder.parent)
        os.fdatasync(self._fd)


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
