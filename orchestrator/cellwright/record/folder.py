"""Where runs lie, what they are called, and what one says it is.

Flows in: the environment, and what a person typed for RUN. Flows out: folders, and `run.json` of one. Decided here: the
form of a run's id, and how RUN is understood: an id, the beginning of one, or a path.
"""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from cellwright.errors import EnvironmentMissing, JournalCorrupt, RunNotFound, UsageError
from cellwright.record.blobs import read_file
from cellwright.record.run_info import RunInfo

_ID = re.compile(r"\d{4}-\d\d-\d\d-\d{6}-[0-9a-f]{6}")


def new_run_id(moment: datetime | None = None) -> str:
    """Return a new id such as `2026-11-29-161724-ab12cd`: UTC time to the second, so that names sort by age."""
    return f"{(moment or datetime.now(UTC)).astimezone(UTC):%Y-%m-%d-%H%M%S}-{secrets.token_hex(3)}"


def runs_folder() -> Path:
    """Return the folder of all runs, which need not exist yet.

    `$CELLWRIGHT_STATE/runs`, else `$XDG_STATE_HOME/cellwright/runs`, else `~/.local/state/cellwright/runs`.
    """
    if state := os.environ.get("CELLWRIGHT_STATE"):
        return Path(state) / "runs"
    if (home := os.environ.get("XDG_STATE_HOME")) and Path(home).is_absolute():
        return Path(home) / "cellwright" / "runs"
    try:
        return Path.home() / ".local" / "state" / "cellwright" / "runs"
    except RuntimeError as error:
        raise EnvironmentMissing(
            "This user has no home folder to keep runs in. Usually HOME is not set. Set it, or CELLWRIGHT_STATE."
        ) from error


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user only; one that exists is left as it is."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def find_run(run: str, root: Path | None = None) -> Path:
    """Return the folder of the run that a person named by id, by a unique beginning of it, or by path.

    Raises:
        RunNotFound: when there is none.
        UsageError: when several runs begin so.
    """
    runs = root or runs_folder()
    if os.sep in run or run in {".", ".."}:
        return _at_path(Path(run))
    if _ID.fullmatch(run) and (runs / run / "run.json").is_file():
        return runs / run
    found = sorted(name for name in run_names(runs) if name.startswith(run)) if run else []
    if run in found or len(found) == 1:
        return runs / (run if run in found else found[0])
    if found:
        raise UsageError(f"{len(found)} runs begin with {run!r}: {', '.join(found[:5])} ... Give more of the id.")
    if (Path(run) / "run.json").is_file() and run:
        return Path(run)
    raise RunNotFound(
        f"There is no run {run[:100]!r} in {runs}. `cellwright runs` lists them; a folder's path works too."
    )


def run_names(root: Path) -> list[str]:
    """Return the names of the folders that may be runs, newest first; empty when there is no such folder."""
    try:
        with os.scandir(root) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(names, reverse=True)


def read_info(folder: Path) -> tuple[bytes, RunInfo]:
    """Return `run.json` of a run's folder, as bytes and as what they say.

    Raises:
        RunNotFound: when it cannot be read: the folder holds no run.
        JournalCorrupt: when it is not what Cellwright writes, so that it is not known what the records belong to.
    """
    try:
        data = read_file(folder / "run.json")
    except OSError as error:
        raise RunNotFound(f"{folder} is not a run: its run.json cannot be read ({error.strerror}).") from error
    try:
        return data, RunInfo.model_validate_json(data)
    except ValueError as error:
        raise JournalCorrupt(
            f"run.json in {folder} is not what Cellwright writes: it was changed, or a newer version wrote it. "
            f"The journal beside it is plain text. Run `cellwright verify {folder}`."
        ) from error


def _at_path(folder: Path) -> Path:
    if not (folder / "run.json").is_file():
        raise RunNotFound(
            f"{folder} is not a run: it has no run.json. `cellwright runs` lists the runs of this machine."
        )
    return folder
