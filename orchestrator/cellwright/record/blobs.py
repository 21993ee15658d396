"""Bytes named by their hash, in `blobs/` of a run.

Flows in: bytes. Flows out: their SHA-256 as 64 hex digits, and the bytes again, checked against it. Decided here: a
blob is written once (a temporary file, then rename), a name is only ever a hash that was computed out here, and
what is opened is a regular file and no link.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cellwright.errors import DiskFull, JournalCorrupt, RecordError

_NAME = re.compile(r"[0-9a-f]{64}")
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Blobs:
    """The blobs of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Blobs {self.folder}>"

    @staticmethod
    def name(data: bytes) -> str:
        """Return the name of a blob with these bytes: their SHA-256, 64 hex digits."""
        return hashlib.sha256(data).hexdigest()

    def path(self, sha256: str) -> Path:
        """Return where the blob of this hash is, or would be.

        Raises:
            JournalCorrupt: when this is no hash.
        """
        if _NAME.fullmatch(sha256) is None:
            raise JournalCorrupt(f"{sha256[:80]!r} is not the name of a blob. A record was changed or made elsewhere.")
        return self.folder / sha256

    def has(self, sha256: str) -> bool:
        """Return whether the blob is there; its content is not checked."""
        return self.path(sha256).is_file()

    def write(self, data: bytes) -> str:
        """Keep bytes and return their hash; bytes that are there already are not written again.

        Raises:
            DiskFull: when there is no room; nothing is left of the blob.
            RecordError: when it cannot be written for another reason.
        """
        sha256 = self.name(data)
        target = self.path(sha256)
        if not target.exists():
            write_file(target, data)
        return sha256

    def read(self, sha256: str) -> bytes:
        """Return the blob's bytes.

        Raises:
            JournalCorrupt: when the blob is missing or does not match its name.
        """
        try:
            data = read_file(self.path(sha256))
        except OSError as error:
            raise JournalCorrupt(
                f"Blob {sha256} cannot be read ({error.strerror}). The run's folder is not whole; "
                "the records are still readable. Run `cellwright verify` on it."
            ) from error
        if self.name(data) != sha256:
            raise JournalCorrupt(f"Blob {sha256} does not match its name: it was changed after it was written.")
        return data

    def names(self) -> Iterator[str]:
        """Yield the name of everything in the folder, sorted; nothing when there is no folder."""
        if self.folder.is_dir():
            yield from sorted(entry.name for entry in os.scandir(self.folder))

    def size_bytes(self) -> int:
        """Return how many bytes are kept."""
        return sum((self.folder / name).lstat().st_size for name in self.names())


def write_file(target: Path, data: bytes) -> None:
    """Write a whole file of mode 0600 at once: readers see all of it or none.

    Raises:
        DiskFull: when there is no room; nothing is left.
        RecordError: when it cannot be written for another reason.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise as_record_error(error, target.name) from error


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes; one write(2) unless the system takes fewer at a time. Raises OSError."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


def as_record_error(error: OSError, name: str) -> RecordError:
    """Return the error of the tree for a failed write of the file `name`."""
    if error.errno in _FULL:
        return DiskFull(
            f"{name} could not be written: {error.strerror}. The disk, the quota or the file size limit is reached. "
            "What was recorded before is whole. Free some space, then go on."
        )
    return RecordError(
        f"{name} could not be written: {error.strerror}. Usually the folder is gone or not ours. "
        "What was recorded before is as it was. Check the runs folder."
    )


def read_file(path: Path) -> bytes:
    """Return a regular file's bytes; a link, a pipe or a device raises OSError, as does a missing file."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read()
