"""The writer of a run: its folder, its append-only journal, its blobs and its head.

Flows in: records and bytes. Flows out: a run on disk; `append` returns once write(2) has, so that the record survives
SIGKILL of everything. Decided here: one write per record, what happens when there is no room (no half record stays),
how a torn end is mended when a run is opened again, and how many bytes a cell and a run may
keep: blobs beyond that are only counted, and in a run that is full nothing more is begun.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import JsonValue

from cellwright import __version__
from cellwright.errors import RecordError, RunFull
from cellwright.record.blobs import Blobs, as_record_error, read_file, write_all, write_file
from cellwright.record.chain import digest, seal
from cellwright.record.folder import make_private, new_run_id, read_info, runs_folder
from cellwright.record.lines import JOURNAL, Line, Scan, refuse_faults, scan, written
from cellwright.record.lock import take_lock
from cellwright.record.records import (
    CLAIMED_OF_CELL,
    CellClosed,
    CellOpened,
    Driver,
    Head,
    ModelRequest,
    ModelResponse,
    Note,
    Record,
    RunClosed,
    RunEnd,
    RunInfo,
    Screen,
    now,
    recorded_spec,
)
from cellwright.record.stored import StoredImage, StoredOutput, StoredText, screenshot_image, stored
from cellwright.record.sync import Sync
from cellwright.record.without_values import info_without_values, record_without_values
from cellwright.sandbox.base import Spec
from cellwright.secrets import NONE, Secrets
from cellwright_kernel.wire import Cell, Output

_BEGINNINGS: Final = (CellOpened, ModelRequest)
"""Records after which something happens. All others say what has happened, and are written in a full run, too."""


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


class Journal:
    """One run, open for writing. Threads may share it. Make one with `create` or `reopen`."""

    def __init__(self, folder: Path, info: RunInfo, fd: int, found: Scan, *, durable: bool, keep: Keep) -> None:
        self.folder, self.info = folder, info
        self.blobs = Blobs(folder / "blobs")
        self._fd = fd
        self._lock = threading.RLock()
        self._count, self._last, self._size = found.count, found.last, found.whole_bytes
        self._cells = sum(isinstance(line.record, CellOpened) for line in found.lines)
        self._turns = sum(isinstance(line.record, ModelResponse) for line in found.lines)
        self._keep, self._kept = keep, self.blobs.size_bytes()
        self._kept_by_cell: Counter[int] = Counter()
        self._durable, self._broken = durable, False
        self._sync = Sync(fd, folder)
        self.secrets: Secrets = NONE
        """Whose values no record may hold, whoever said them, and no blob as they are."""

    def __repr__(self) -> str:
        state = "closed" if self._fd < 0 else "open"
        return f"<Journal {self.info.run_id}: {state}, {self._count} records>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._fd >= 0:
            self.close("failed" if kind else "done", reason=kind.__name__ if kind else None)

    @property
    def cells(self) -> int:
        """Cells that were opened so far; the next one's number is one more."""
        return self._cells

    @classmethod
    def create(cls, folder: Path, info: RunInfo, *, durable: bool = False, keep: Keep | None = None) -> Self:
        """Make the run's folder (mode 0700), with `run.json` and an empty journal in it.

        Args:
            folder: Must not exist yet; `runs_folder() / info.run_id`.
            info: What the run is.
            durable: Whether every `append` waits for fsync.
            keep: How much is kept; by default 64 MiB a cell and 2 GiB a run.

        Raises:
            RecordError: when the folder exists or cannot be made.
            DiskFull: when there is no room.
        """
        try:
            make_private(folder.parent)
            folder.mkdir(mode=0o700)
            (folder / "blobs").mkdir(mode=0o700)
        except OSError as error:
            raise as_record_error(error, str(folder)) from error
        data = info.model_dump_json(indent=2, ensure_ascii=True).encode() + b"\n"
        write_file(folder / "run.json", data)
        fd = _open(folder)
        return cls(folder, info, fd, scan(b"", digest(data)), durable=durable, keep=keep or Keep())

    @classmethod
    def reopen(cls, folder: Path, *, durable: bool = False, keep: Keep | None = None) -> Self:
        """Open a run for more records. A torn end is cut, kept as a blob, and noted.

        Raises:
            JournalCorrupt: when something was changed, or written by a newer version; names what. Nothing is written then.
            RunNotFound: when its `run.json` cannot be read.
            RecordError: when another process is writing the run, or its journal cannot be read.
        """
        fd = _open(folder)
        try:
            data, info = read_info(folder)
            found = scan(read_file(folder / JOURNAL), digest(data))
            refuse_faults(found.problems, folder)
            journal = cls(folder, info, fd, found, durable=durable, keep=keep or Keep())
        except OSError as error:
            os.close(fd)
            raise as_record_error(error, JOURNAL) from error
        except BaseException:
            os.close(fd)
            raise
        if found.torn:
            journal._mend(found.torn)
        return journal

    def append(self, record: Record) -> Line:
        """Write one record; returns once write(2) has (or fsync, when durable).

        Raises:
            DiskFull: when there is no room. No part of the record stays; the journal is readable, and a later
                record may be tried.
            RunFull: when the record would begin something, and the run has no room for what comes of it.
            RecordError: when the journal is closed, or cannot be written for another reason.
        """
        record = record_without_values(record, self.secrets.hider)
        with self._lock:
            if self._fd < 0 or self._broken:
                raise RecordError("The journal is closed; nothing more can be recorded in this run.")
            if isinstance(record, _BEGINNINGS) and self._kept + self._size >= self._keep.run_bytes:
                raise RunFull(
                    f"The run holds {self._keep.run_bytes >> 20} MiB, as much as a run may. Usually it has gone on for "
                    "thousands of cells. Nothing ran; what was recorded is whole, and variables and files are kept. "
                    "Fetch what is needed and open a new session."
                )
            data, line = written(self._count + 1, record, self._last)
            self._write(data)
            self._count, self._last, self._size = line.number, line.hash, self._size + len(data)
            self._cells += isinstance(record, CellOpened)
            self._turns += isinstance(record, ModelResponse)
            self._sync.wrote()
        if self._durable:
            self._sync.wait()
        return line

    def blob(self, data: bytes, *, cell: int | None = None) -> str:
        """Keep bytes and return their SHA-256, 64 hex digits; `keeps` tells whether there was room and no secret in them.

        Args:
            data: The bytes.
            cell: Number of the cell whose share they count against; absent: the run's only.

        Raises:
            DiskFull: when there is no room on the disk; nothing of the blob stays.
        """
        with self._lock:
            sha256 = Blobs.name(data)
            if self.blobs.has(sha256) or not self._has_room(len(data), cell) or self.secrets.hider.found_in(data):
                return sha256
            self.blobs.write(data)
            self._kept += len(data)
            if cell is not None:
                self._kept_by_cell[cell] += len(data)
            self._sync.wrote(self.blobs.path(sha256))
            return sha256

    def keeps(self, sha256: str) -> bool:
        """Return whether the blob of this hash is on disk."""
        return self.blobs.has(sha256)

    def store(self, output: Output, *, cell: int, whole: str | None = None) -> StoredOutput:
        """Keep what an output names as blobs, and return it as a record has it.

        Args:
            output: As it came from inside.
            cell: The cell it counts against.
            whole: The text as the cell wrote it, where it was cut.
        """
        kept, blobs = stored(output, whole)
        missing = [sha256 for data in blobs if not self.keeps(sha256 := self.blob(data, cell=cell))]
        if not missing:
            return kept
        match kept:
            case StoredImage():
                return kept.model_copy(update={"kept": False})
            case StoredText():
                names = ("text_sha256", "full_sha256")
                return kept.model_copy(update={name: None for name in names if getattr(kept, name) in missing})

    def cell_closed(
        self,
        cell: Cell,
        *,
        kernel_generation: int | None = None,
        observed: Collection[str] = (),
        wholes: Mapping[int, str] | None = None,
    ) -> Line:
        """Record a cell's end, with its pictures and long texts as blobs; raises as `append` does.

        Args:
            cell: As it was closed.
            kernel_generation: What the kernel host said of it.
            observed: Fields of the record that were seen from outside, such as `status` when the sandbox was lost; a
                rung that the outside used is `rung`.
            wholes: Position of an output that was cut -> the text as the cell wrote it.
        """
        claimed = tuple(name for name in CLAIMED_OF_CELL if name not in observed)
        return self.append(
            CellClosed(
                number=cell.number,
                status=cell.status,
                outputs=tuple(
                    self.store(output, cell=cell.number, whole=(wholes or {}).get(place))
                    for place, output in enumerate(cell.outputs)
                ),
                truncated=cell.truncated,
                rung=cell.rung,
                duration_ms=cell.duration_ms or 0,
                kernel_generation=kernel_generation,
                claimed=claimed,
            )
        )

    def screenshot(self, png: bytes, *, after_cell: int | None = None, pixels_sha256: str | None = None) -> str:
        """Keep a screenshot, record it, and return its hash: what `screen_before` and `screen_after` name.

        Args:
            png: The encoded picture of the whole desktop.
            after_cell: Number of the last cell that had ended; absent before the first.
            pixels_sha256: Hash of the raw pixels, as the inside said.
        """
        image = screenshot_image(png)
        self.blob(png, cell=after_cell)
        if not self.keeps(image.sha256):
            image = image.model_copy(update={"kept": False})
        self.append(Screen(image=image, after_cell=after_cell, pixels_sha256=pixels_sha256))
        return image.sha256

    def sync(self) -> None:
        """Return once everything appended so far is on the disk itself."""
        self._sync.wait()

    def close(self, status: RunEnd, *, reason: str | None = None, summary: str | None = None) -> None:
        """Record the run's end, seal it with `head.json`, fsync, and let go of it. Safe to call twice.

        Raises:
            DiskFull: when the end cannot be recorded; the run is let go of all the same, and stays `open`.
        """
        with self._lock:
            if self._fd < 0:
                return
            try:
                end = RunClosed(status=status, reason=reason, summary=summary, cells=self._cells, turns=self._turns)
                self.append(end)
                run_hash = digest(read_file(self.folder / "run.json"))
                head = Head(count=self._count, last=self._last, run=run_hash, closed_at=now())
                body: dict[str, JsonValue] = head.model_dump(mode="json")
                write_file(self.folder / "head.json", seal(body)[0])
                self._sync.wrote(self.folder / "head.json")
            finally:
                self.leave()

    def leave(self) -> None:
        """Let go of the run without an end; it is `open` and can be opened again. Safe to call twice."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd < 0:
                return
            try:
                self._sync.close()
            finally:
                os.close(fd)

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._fd, data)
        except BaseException as error:
            self._cut_back()
            if isinstance(error, OSError):
                raise as_record_error(error, JOURNAL) from error
            raise

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            self._broken = True  # a torn end stays; opening the run again mends it

    def _has_room(self, size_bytes: int, cell: int | None) -> bool:
        if self._kept + max(self._size, self._keep.journal_bytes) + size_bytes > self._keep.run_bytes:
            return False
        return cell is None or self._kept_by_cell[cell] + size_bytes <= self._keep.cell_bytes

    def _mend(self, torn: bytes) -> None:
        try:
            sha256 = self.blob(torn)
            self._cut_back()
            text = f"The last {len(torn)} bytes were a torn record: the writer had been stopped. They were cut."
            self.append(Note(topic="repair", text=text, sha256=sha256 if self.keeps(sha256) else None))
        except BaseException:
            self.leave()
            raise


def open_run(
    runs: Path | None = None,
    *,
    session_id: str,
    driver: Driver,
    spec: Spec,
    task: str | None = None,
    model: str | None = None,
    durable: bool = False,
    secrets: Secrets = NONE,
) -> Journal:
    """Make the folder of a new run under a new id, and return its journal; raises as `Journal.create` does.

    Args:
        runs: Folder of the runs; absent: `runs_folder()`.
        session_id: The run's first session.
        driver: Who sends the cells.
        spec: What the sandbox is made from; of its `env` only the names are kept.
        task: The user's words; absent when no model is given a task.
        model: The model's name; absent when none drives.
        durable: Whether every record waits for fsync.
        secrets: Whose values it may not hold.
    """
    info = RunInfo(
        run_id=new_run_id(),
        cellwright=__version__,
        driver=driver,
        session_id=session_id,
        spec=recorded_spec(spec),
        task=task,
        model=model,
    )
    journal = Journal.create(
        (runs or runs_folder()) / info.run_id, info_without_values(info, secrets.hider), durable=durable
    )
    journal.secrets = secrets
    return journal


def _open(folder: Path) -> int:
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
    return fd
