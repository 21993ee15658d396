"""How many bytes of a run stay on disk.

Flows in: bytes to be kept, and how large the journal has become. Flows out: blobs. Decided here: how many bytes a cell and
a run may keep: blobs beyond that are only counted, and in a run that is full nothing more is begun; and that no bytes are
kept in which the value of a secret stands.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cellwright.errors import RunFull
from cellwright.record.blobs import Blobs
from cellwright.secrets import Hider


@dataclass(frozen=True)
class Keep:
    """How many bytes stay on disk; blobs beyond are only counted, and at the end of a run's room nothing is begun in it."""

    cell_bytes: int = 64 * 1024**2
    """Blobs of one cell."""
    run_bytes: int = 2 * 1024**3
    """Blobs and journal together."""

    @property
    def journal_bytes(self) -> int:
        """Of the run's bytes, those that blobs leave to the journal at the least: room for some thousand cells more."""
        return self.run_bytes // 8


class KeptBlobs:
    """The blobs of a run that is being written. Not to be used by two threads at once.

    Args:
        folder: Where they are.
        keep: How much is kept.
        hider: Finds values of secrets.
    """

    def __init__(self, folder: Path, keep: Keep, hider: Hider) -> None:
        self._blobs = Blobs(folder)
        self._keep = keep
        self._hider = hider
        self._bytes = self._blobs.size_bytes()
        self._bytes_by_cell: Counter[int] = Counter()

    def has(self, sha256: str) -> bool:
        """Return whether the blob of this hash is on disk."""
        return self._blobs.has(sha256)

    def path(self, sha256: str) -> Path:
        """Return where the blob of this hash is, or would be."""
        return self._blobs.path(sha256)

    def add(self, data: bytes, sha256: str, *, cell: int | None, journal_bytes: int) -> bool:
        """Keep bytes, if there is room and no secret in them; return whether they were written, and not there already.

        Args:
            data: The bytes.
            sha256: Their name.
            cell: Number of the cell whose share they count against; absent: the run's only.
            journal_bytes: Size of the journal.

        Raises:
            DiskFull: There is no room on the disk; nothing of the blob stays.
        """
        if self.has(sha256) or not self._has_room(len(data), cell, journal_bytes) or self._hider.found_in(data):
            return False
        self._blobs.write(data)
        self._bytes += len(data)
        if cell is not None:
            self._bytes_by_cell[cell] += len(data)
        return True

    def refuse_if_full(self, journal_bytes: int) -> None:
        """Return when the run has room for what comes of a new beginning.

        Args:
            journal_bytes: Size of the journal.

        Raises:
            RunFull: It has not.
        """
        if self._bytes + journal_bytes >= self._keep.run_bytes:
            raise RunFull(
                f"The run holds {self._keep.run_bytes >> 20} MiB, as much as a run may. Usually it has gone on for "
                "thousands of cells. Nothing ran; what was recorded is whole, and variables and files are kept. "
                "Fetch what is needed and open a new session."
            )

    def _has_room(self, size_bytes: int, cell: int | None, journal_bytes: int) -> bool:
        if self._bytes + max(journal_bytes, self._keep.journal_bytes) + size_bytes > self._keep.run_bytes:
            return False
        return cell is None or self._bytes_by_cell[cell] + size_bytes <= self._keep.cell_bytes
