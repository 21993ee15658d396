"""Files that were copied into a run's sandbox, and those that take their place when it is done again.

Flows in: the record of the files, which may be a stranger's, and the caller's paths by the names that they replace. Flows out:
which file takes the place of which. Decided here: what is refused before anything runs: a name that the run does not have, a
file that is not there, and one that the run does not keep and nobody gives; and that a folder takes the place of the
run's files below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from cellwright.errors import JournalCorrupt, UsageError
from cellwright.record.records import CopiedFile
from cellwright.sandbox.door import FILE_BYTES

_NAMES = 20


def in_place_of(path: str, given: Mapping[str, Path]) -> Path | None:
    """Return what takes the place of a file that was copied in; None where the run's own does."""
    parts = PurePosixPath(path).parts
    for count in range(len(parts), 0, -1):
        other = given.get("/".join(parts[:count]))
        if other is not None:
            return other.joinpath(*parts[count:])
    return None


def must_fit(files: Iterable[CopiedFile], given: Mapping[str, Path]) -> None:
    """Return when a run's files can enter a sandbox again.

    Args:
        files: As the run has them.
        given: What takes their place, by path in the sandbox's home.

    Raises:
        JournalCorrupt: One of the run's is no file of a home.
        UsageError: A name is none of the run's, or a file is missing. Nothing ran.
    """
    files = tuple(files)
    for file in files:
        _must_be_below_home(file.path)
        other = in_place_of(file.path, given)
        if other is not None:
            _must_be_there(file.path, other)
        elif not file.kept or file.sha256 is None:
            raise UsageError(
                f"{file.path} was copied into the sandbox, and the run does not keep it: it was too large. Nothing ran. "
                f"Give it again: --file {file.path}."
            )
    for name in given:
        if not any(PurePosixPath(file.path).is_relative_to(name) for file in files):
            has = ", ".join([file.path for file in files[:_NAMES]] + ["..."] * (len(files) > _NAMES)) or "none"
            raise UsageError(
                f"--file {name}: the run was given no file or folder of this name. Nothing ran. It has: {has}."
            )


def _must_be_below_home(path: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or PurePosixPath(path).is_absolute() or ".." in parts or "\0" in path:
        raise JournalCorrupt(f"The run says that {path!r} was copied in, which is no file of a home. Nothing ran.")


def _must_be_there(path: str, other: Path) -> None:
    if not other.is_file():
        raise UsageError(
            f"--file: {other} is to take the place of {path}, and is no file. Nothing ran. Check the path."
        )
    if other.stat().st_size > FILE_BYTES:
        raise UsageError(f"--file: {other} is larger than {FILE_BYTES >> 20} MiB. Nothing ran. Give a smaller one.")
