"""A run's folder in one file, as it is.

Flows in: a run's folder. Flows out: a ZIP, written and never read: what others packed is not opened here. Decided here: only
regular files are taken, by their place in the folder; pictures, which are compressed, are compressed no further to speak of.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from cellwright.errors import JournalCorrupt
from cellwright.record import verify

_PIECE_BYTES: Final = 1024**2
_QUICK: Final = 1


def write_zip(folder: Path, file: IO[bytes], *, force: bool) -> None:
    """Write it.

    Raises:
        JournalCorrupt: The run is not as it was written, and nobody insists. Nothing was written.
    """
    verdict = verify(folder)
    if verdict.status == "changed" and not force:
        raise JournalCorrupt(
            f"{folder.name}: {verdict.sentence} Nothing was exported. `cellwright verify` says what differs; --force packs it as it is."
        )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_QUICK) as packed:
        for path in _files(folder):
            _add(packed, path, f"{folder.resolve().name}/{path.relative_to(folder).as_posix()}")


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names))


def _add(packed: zipfile.ZipFile, path: Path, name: str) -> None:
    facts = path.lstat()
    if not stat.S_ISREG(facts.st_mode):
        return
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (facts.st_mode & 0xFFFF) << 16
        with packed.open(entry, "w", force_zip64=True) as target:
            while piece := source.read(_PIECE_BYTES):
                target.write(piece)
