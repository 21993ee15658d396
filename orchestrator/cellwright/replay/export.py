"""A run in a form that others read: notebook, script, page, or its folder in one file.

Flows in: a `Run`, and where to. Flows out: the file. Decided here: that nothing is overwritten unless somebody insists, and then
only by what is whole; that a file which could not be finished is not left behind; and that pieces go to the file as they are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Literal

from cellwright.errors import UsageError
from cellwright.record import Run
from cellwright.replay.export_notebook import notebook
from cellwright.replay.export_page import page
from cellwright.replay.export_script import script
from cellwright.replay.export_zip import write_zip

Form = Literal["ipynb", "py", "html", "zip"]

_TEXTS: Final[Mapping[Form, Callable[[Run], Iterator[str]]]] = {"ipynb": notebook, "py": script, "html": page}


def export(run: Run, form: Form, file: IO[bytes], *, force: bool = False) -> None:
    """Write a run.

    Args:
        run: What to write.
        form: As what.
        file: Where to.
        force: Whether a ZIP is made also of a run that is not as it was written.

    Raises:
        JournalCorrupt: It is not, for a ZIP. Nothing was written.
    """
    if form == "zip":
        write_zip(run.folder, file, force=force)
    else:
        write_text(_TEXTS[form](run), file)


def write_text(pieces: Iterator[str], file: IO[bytes]) -> None:
    """Write text, piece by piece, as UTF-8; a lone surrogate in code becomes what Python's escapes say."""
    for piece in pieces:
        file.write(piece.encode("utf-8", "backslashreplace"))


@contextmanager
def new_file(target: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Give a file to write; it is in its place once the block has ended well, and else nowhere.

    Raises:
        UsageError: There is one, and nobody insists; or its folder is not there. Nothing was written.
    """
    folder_must_be_there(target)
    if not force and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} is there already. Nothing was written. Name another with --out, or say --force.")
    building = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with building.open("xb") as file:
            yield file
        if force:
            building.replace(target)
        else:
            _put(building, target)
    finally:
        building.unlink(missing_ok=True)


def folder_must_be_there(target: Path) -> None:
    """Return when a file can be made in the place that it is to have.

    Raises:
        UsageError: There is no such folder.
    """
    if not target.parent.is_dir():
        raise UsageError(f"{target} cannot be written: there is no folder {target.parent}. Nothing was written.")


def _put(building: Path, target: Path) -> None:
    """Give a file its name, unless somebody was faster."""
    try:
        target.hardlink_to(building)
    except FileExistsError:
        raise UsageError(f"{target} was made by somebody else meanwhile. Nothing was written.") from None
    except OSError:  # a file system without links
        building.replace(target)
