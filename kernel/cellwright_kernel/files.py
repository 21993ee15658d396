"""The files below the sandbox's home, for the outside.

Flows in: relative paths. Flows out: regular files and their listing. Decided here: every folder on the way is opened by
its handle and never through a link, so that code inside that swaps a folder for a link in the meantime gains nothing;
what was checked is what is read; sizes are bounded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cellwright_kernel.wire import FileInfo

FILE_BYTES: Final = 512 * 1024**2
"""Largest file that is read or written."""
LISTED: Final = 10_000
"""Most files in one listing."""
_DEPTH: Final = 32
_CHUNK_BYTES: Final = 256 * 1024
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BadPath(Exception):
    """The path leaves the home, passes through a link, or names no regular file."""


class TooLarge(Exception):
    """The file is larger than `FILE_BYTES`."""


class Files:
    """Access to one folder and what is below it.

    Args:
        home: The folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def listing(self, path: str) -> list[FileInfo]:
        """Return the regular files below a folder, by path; links and what is not readable are left out.

        Raises:
            FileNotFoundError: there is no such folder.
            BadPath: see there.
        """
        parts = _parts(path)
        with self._folder(parts) as folder:
            found = []
            for info in _below(folder, "/".join(parts), _DEPTH):
                found.append(info)
                if len(found) == LISTED:
                    break
        return sorted(found, key=lambda info: info.path)

    def open(self, path: str) -> tuple[int, int]:
        """Open a file to be read; return its handle, which the caller closes, and its size in bytes.

        Raises:
            FileNotFoundError: there is no such file.
            BadPath: see there.
            TooLarge: see there.
        """
        *parts, name = _named(path)
        with self._folder(parts) as folder, _refusals(path):
            # O_NONBLOCK: opening a pipe must not wait for its other end
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
            os.close(handle)
            if stat.S_ISREG(found.st_mode):
                raise TooLarge(f"{path!r} has {found.st_size:,} bytes; at most {FILE_BYTES:,} can be read.")
            raise BadPath(f"{path!r} is no regular file.")
        return handle, found.st_size

    async def write(self, path: str, chunks: AsyncIterator[bytes]) -> int:
        """Write a file, making folders on the way; it appears whole or not at all. Return its size in bytes.

        Raises:
            BadPath: see there.
            TooLarge: see there; nothing was written.
            OSError: the disk is full.
        """
        *parts, name = _named(path)
        with self._folder(parts, make=True) as folder, _refusals(path):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise BadPath(f"{path!r} is there and is no regular file.")
            unfinished = f".{secrets.token_hex(8)}.part"
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
            try:
                size = await _fill(handle, chunks, path)
                os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished, dir_fd=folder)
                raise
            finally:
                os.close(handle)
        return size

    def delete(self, path: str) -> None:
        """Remove a file, or a link itself.

        Raises:
            FileNotFoundError: there is no such file.
            BadPath: see there.
        """
        *parts, name = _named(path)
        with self._folder(parts) as folder, _refusals(path):
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _folder(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        """Walk to a folder, each part opened relative to the one before and never through a link."""
        handle = os.open(self._home, _FOLDER)
        try:
            for part in parts:
                with _refusals("/".join(parts)):
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, 0o755, dir_fd=handle)
                    below = os.open(part, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def read_chunks(handle: int, size: int) -> Iterator[bytes]:
    """Yield an open file's first `size` bytes, fewer if it became shorter, and close it."""
    try:
        while size > 0 and (chunk := os.read(handle, min(_CHUNK_BYTES, size))):
            size -= len(chunk)
            yield chunk
    finally:
        os.close(handle)


async def _fill(handle: int, chunks: AsyncIterator[bytes], path: str) -> int:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > FILE_BYTES:
            raise TooLarge(f"{path!r} is larger than {FILE_BYTES:,} bytes. Nothing was written.")
        view = memoryview(chunk)
        while view:
            view = view[os.write(handle, view) :]
    return size


def _below(folder: int, path: str, depth: int) -> Iterator[FileInfo]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{path}/{entry.name}" if path else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    if depth > 0:
                        yield from _below_folder(folder, entry.name, name, depth - 1)
                elif entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    at = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="milliseconds")
                    yield FileInfo(
                        path=_readable(name), size_bytes=found.st_size, modified_at=at.replace("+00:00", "Z")
                    )
            except (OSError, OverflowError, ValueError):  # gone in the meantime, unreadable, or a date out of range
                continue


def _below_folder(folder: int, name: str, path: str, depth: int) -> Iterator[FileInfo]:
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield from _below(handle, path, depth)
    finally:
        os.close(handle)


def _readable(name: str) -> str:
    """Return a name as text; one that is not UTF-8 cannot be asked for, but it is listed."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _named(path: str) -> list[str]:
    parts = _parts(path)
    if not parts:
        raise BadPath("The path names no file.")
    if path.endswith("/"):
        raise BadPath(f"{path[:100]!r} names a folder, and a file was meant.")
    return parts


def _parts(path: str) -> list[str]:
    if path.startswith("/") or "\0" in path or len(path) > 4096:
        raise BadPath(f"{path[:100]!r} is no relative path below the home.")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadPath(f"{path[:100]!r} leaves the home.")
    return parts


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    """Turn what the system says about a path into what it means here."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO, errno.ENAMETOOLONG, errno.EINVAL):
            raise BadPath(f"{path[:100]!r} passes through a link, or names no regular file.") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise BadPath(f"{path[:100]!r} can't be opened: {error.strerror}.") from None
        raise
