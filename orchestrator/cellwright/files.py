"""Files of the caller into the sandbox, and files of the sandbox out to the caller.

Flows in: paths that the caller named. Flows out: copies. Decided here: links are refused on the way in, so that nothing
enters that was not named; on the way out a name from inside is only ever a name below the caller's folder, and what
is there already as a link is not followed; and that a file with the value of a secret is given to nobody who has not asked for
that, but copied with a word about it where it would be lost otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from cellwright.counted import counted
from cellwright.errors import BadPath, CellwrightError, FileMissing, HoldsSecret, UsageError
from cellwright.record.blobs import Blobs
from cellwright.record.journal import Journal
from cellwright.record.records import CopiedFile
from cellwright.sandbox.door import FILE_BYTES, Door

OUT_FILES: Final = 1000
"""Most files that are copied out."""
OUT_BYTES: Final = 2 * 1024**3


async def copy_in(paths: Sequence[Path], door: Door, journal: Journal) -> tuple[CopiedFile, ...]:
    """Copy files and folders into the sandbox's home, under their own names; keep them in the run, and return them.

    Raises:
        UsageError: One does not exist, is a link, is no regular file, cannot be read, is too large, or has the name of
            another. Nothing is copied then.
    """
    copied: list[CopiedFile] = []
    if not paths:  # as most often: no thread is needed to find that out
        return ()
    for name, source in (await asyncio.to_thread(_to_enter, paths)).items():
        data = await asyncio.to_thread(_read, source)
        await door.write_file(name, data)
        sha256 = await asyncio.to_thread(journal.blob, data)
        copied.append(CopiedFile(path=name, size_bytes=len(data), sha256=sha256, kept=journal.keeps(sha256)))
    return tuple(copied)


async def read_out(door: Door, path: str, *, with_secrets: bool = False) -> bytes:
    """Return a file of the sandbox's home.

    Args:
        door: Of the sandbox.
        path: Relative to its home.
        with_secrets: True gives it also where it holds the value of a secret.

    Raises:
        HoldsSecret: It does, in a form that is hidden in texts, and nobody asked for that.
    """
    data = b"".join([chunk async for chunk in door.read_file(path)])
    if door.secrets and not with_secrets:
        name = await asyncio.to_thread(door.secrets.hider.said_in, data)
        if name is not None:
            raise HoldsSecret(
                f"The file {door.secrets.hide(path)} holds the value of the secret {name}. Usually the model's code wrote it there. It "
                "was not given, and stays where it is. Ask for it with `with_secrets` to have it as it is."
            )
    return data


async def copy_out(
    door: Door, folder: Path, entered: Iterable[CopiedFile], *, holds: Callable[[str, str], None]
) -> tuple[CopiedFile, ...]:
    """Copy what is new or changed in the sandbox's home into the caller's folder; return the files written.

    Args:
        door: Of the sandbox.
        folder: The caller's; it is made if it is not there.
        entered: What was copied in, by `copy_in`: what is still the same stays where it is.
        holds: Called with the path of a file that holds the value of a secret, and that secret's name. It is copied all the
            same: the sandbox ends, and with it the file would be lost.

    Raises:
        UsageError: There is more than is copied out; what came first was copied.
    """
    known = {file.path: file.sha256 for file in entered}
    written: list[CopiedFile] = []
    size = 0
    for info in await door.list_files():
        if _is_hidden(info.path):
            continue
        if len(written) >= OUT_FILES or size + info.size_bytes > OUT_BYTES:
            raise UsageError(
                f"The sandbox's home holds more than is copied out ({OUT_FILES} files, {OUT_BYTES >> 20} MiB). "
                f"{counted(len(written), 'file')} copied to {folder}."
            )
        try:
            data = b"".join([chunk async for chunk in door.read_file(info.path)])
        except (FileMissing, BadPath):  # gone since, or its name is no text; the others are no less wanted
            continue
        sha256 = await asyncio.to_thread(Blobs.name, data)
        if known.get(info.path) == sha256:
            continue
        size += len(data)
        await asyncio.to_thread(_write, folder, info.path, data)
        written.append(CopiedFile(path=info.path, size_bytes=len(data), sha256=sha256))
        if door.secrets and (name := await asyncio.to_thread(door.secrets.hider.said_in, data)) is not None:
            holds(info.path, name)
    return tuple(written)


def _to_enter(paths: Sequence[Path]) -> dict[str, Path]:
    """Return what is to be copied in, by its name inside."""
    found: dict[str, Path] = {}
    try:
        for source, name in _files_below(paths):
            if name in found:
                raise UsageError(
                    f"{source} and {found[name]} would both be {name} in the sandbox. Nothing was copied into it. "
                    "Rename one, or put them into folders."
                )
            found[name] = source
    except OSError as error:
        raise _unreadable(error) from error
    return found


def _read(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            data = file.read(FILE_BYTES + 1)  # it may grow while it is read
    except OSError as error:
        raise _unreadable(error) from error
    if len(data) > FILE_BYTES:
        raise UsageError(f"{source} is larger than {FILE_BYTES >> 20} MiB. Nothing was copied into the sandbox.")
    return data


def _unreadable(error: OSError) -> UsageError:
    return UsageError(
        f"{error.filename} cannot be read: {error.strerror}. Usually it belongs to somebody else. Nothing ran. "
        "Name another file, or change its permissions."
    )


def _files_below(paths: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if not path.exists():
            raise UsageError(f"There is no file {path}. Nothing was copied into the sandbox.")
        if not path.is_dir():
            yield _enterable(path), path.name
            continue
        base = path.resolve()
        for folder, folders, names in os.walk(base):
            for name in folders + names:
                _refuse_link(Path(folder, name))
            for name in sorted(names):
                file = Path(folder, name)
                yield _enterable(file), str(PurePosixPath(base.name, *file.relative_to(base).parts))


def _enterable(path: Path) -> Path:
    _refuse_link(path)
    if not path.is_file():
        raise UsageError(f"{path} is not a regular file. Nothing was copied into the sandbox.")
    if path.stat().st_size > FILE_BYTES:
        raise UsageError(f"{path} is larger than {FILE_BYTES >> 20} MiB. Nothing was copied into the sandbox.")
    return path


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UsageError(
            f"{path} is a symbolic link. It could lead to a file that was not meant. Nothing was copied into the "
            "sandbox. Name the file itself."
        )


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _write(folder: Path, name: str, data: bytes) -> None:
    """Write below `folder`; every component is opened without following a link."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or any(part in {"..", ""} or "\0" in part for part in parts):
        raise BadPath(f"The sandbox named a file {name[:200]!r}, which does not stay below {folder}.")
    at = -1
    try:
        folder.mkdir(parents=True, exist_ok=True)
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=at)
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(parts[-1], flags, 0o644, dir_fd=at), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
    except OSError as error:
        raise CellwrightError(f"{name[:200]!r} from the sandbox could not be written to {folder}: {error}.") from error
    finally:
        if at >= 0:
            os.close(at)
