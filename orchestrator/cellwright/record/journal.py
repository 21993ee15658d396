"""The writer of a run: its folder, its append-only journal, its blobs and its head.

Flows in: records and bytes. Flows out: a run on disk; `append` returns once write(2) has, so that the record survives
SIGKILL of everything. Decided here: what is in a run's folder, and in which order it is written; how a torn end is mended
when a run is opened again; and that nothing is written with the value of a secret in it, for which this is the one place
(`without_values.py` says why the sandbox's door is not enough).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pydantic import JsonValue

from cellwright import __version__
from cellwright.errors import RecordError
from cellwright.record.blobs import Blobs, as_record_error, read_file, write_file
from cellwright.record.chain import digest, seal
from cellwright.record.folder import make_private, new_run_id, read_info, runs_folder
from cellwright.record.journal_file import JournalFile
from cellwright.record.keep import Keep, KeptBlobs
from cellwright.record.lines import JOURNAL, Line, Scan, refuse_faults, scan, written
from cellwright.record.reader import end_of
from cellwright.record.records import (
    CLAIMED_OF_CELL,
    CellClosed,
    CellOpened,
    ModelRequest,
    ModelResponse,
    Note,
    Record,
    RunClosed,
    Screen,
)
from cellwright.record.run_info import Driver, Head, RunEnd, RunInfo, now, recorded_spec
from cellwright.record.stored import StoredImage, StoredOutput, StoredText, screenshot_image, stored
from cellwright.record.sync import Sync
from cellwright.record.without_values import info_without_values, record_without_values
from cellwright.sandbox.base import Spec
from cellwright.secrets import NONE, Secrets
from cellwright_kernel.wire import Cell, Output

_BEGINNINGS: Final = (CellOpened, ModelRequest)
"""Records after which something happens. All others say what has happened, and are written in a full run, too."""


class Journal:
    """One run, open for writing. Threads may share it. Make one with `create` or `reopen`."""

    def __init__(
        self,
        folder: Path,
        info: RunInfo,
        file: JournalFile,
        found: Scan,
        *,
        durable: bool = False,
        keep: Keep | None = None,
        secrets: Secrets = NONE,
    ) -> None:
        self.folder = folder
        self.info = info
        self._file = file
        self._file.size_bytes = found.whole_bytes
        self._hider = secrets.hider
        self._blobs = KeptBlobs(folder / "blobs", keep or Keep(), secrets.hider)
        self._lock = threading.RLock()
        self._count = found.count
        self._last = found.last
        self.end_before = end_of([line.record for line in found.lines])
        """The end that the run had when it was opened; None where it had none."""
        self.has_begun = False
        """Whether more than notes was appended since."""
        self._cells = sum(isinstance(line.record, CellOpened) for line in found.lines)
        self._turns = sum(isinstance(line.record, ModelResponse) for line in found.lines)
        self._durable = durable
        self._sync = Sync(file.fd, folder)

    def __repr__(self) -> str:
        state = "open" if self._file.is_open else "closed"
        return f"<Journal {self.info.run_id}: {state}, {self._count} records>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file.is_open:
            self.close("failed" if kind else "done", reason=kind.__name__ if kind else None)

    @property
    def cells(self) -> int:
        """Cells that were opened so far; the next one's number is one more."""
        return self._cells

    @classmethod
    def create(
        cls,
        folder: Path,
        info: RunInfo,
        *,
        durable: bool = False,
        keep: Keep | None = None,
        secrets: Secrets = NONE,
    ) -> Self:
        """Make the run's folder (mode 0700), with `run.json` and an empty journal in it.

        Args:
            folder: Must not exist yet; `runs_folder() / info.run_id`.
            info: What the run is.
            durable: Whether every `append` waits for fsync.
            keep: How much is kept; by default 64 MiB a cell and 2 GiB a run.
            secrets: Whose values it may not hold.

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
        info = info_without_values(info, secrets.hider)
        data = info.model_dump_json(indent=2, ensure_ascii=True).encode() + b"\n"
        write_file(folder / "run.json", data)
        file = JournalFile.open(folder)
        return cls(folder, info, file, scan(b"", digest(data)), durable=durable, keep=keep, secrets=secrets)

    @classmethod
    def reopen(cls, folder: Path, *, durable: bool = False, keep: Keep | None = None, secrets: Secrets = NONE) -> Self:
        """Open a run for more records. A torn end is cut, kept as a blob, and noted.

        Raises:
            JournalCorrupt: when something was changed, or written by a newer version; names what. Nothing is written then.
            RunNotFound: when its `run.json` cannot be read.
            RecordError: when another process is writing the run, or its journal cannot be read.
        """
        file = JournalFile.open(folder)
        try:
            data, info = read_info(folder)
            found = scan(read_file(folder / JOURNAL), digest(data))
            refuse_faults(found.problems, folder)
            journal = cls(folder, info, file, found, durable=durable, keep=keep, secrets=secrets)
        except OSError as error:
            file.close()
            raise as_record_error(error, JOURNAL) from error
        except BaseException:
            file.close()
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
        record = record_without_values(record, self._hider)
        with self._lock:
            if not self._file.takes_more:
                raise RecordError("The journal is closed; nothing more can be recorded in this run.")
            if isinstance(record, _BEGINNINGS):
                self._blobs.refuse_if_full(self._file.size_bytes)
            data, line = written(self._count + 1, record, self._last)
            self._file.write(data)
            self._count = line.number
            self._last = line.hash
            self.has_begun |= not isinstance(record, Note)
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
        sha256 = Blobs.name(data)
        with self._lock:
            if self._blobs.add(data, sha256, cell=cell, journal_bytes=self._file.size_bytes):
                self._sync.wrote(self._blobs.path(sha256))
        return sha256

    def would_hide(self, text: str) -> bool:
        """Return whether a text holds the value of a secret, in any form that is hidden in records."""
        return bool(self._hider) and self._hider.hide(text) != text

    def keeps(self, sha256: str) -> bool:
        """Return whether the blob of this hash is on disk."""
        return self._blobs.has(sha256)

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
        posted: bool = True,
    ) -> Line:
        """Record a cell's end, with its pictures and long texts as blobs; raises as `append` does.

        Args:
            cell: As it was closed.
            kernel_generation: What the kernel host said of it.
            observed: Fields of the record that were seen from outside, such as `status` when the sandbox was lost; a
                rung that the outside used is `rung`.
            wholes: Position of an output that was cut -> the text as the cell wrote it.
            posted: Whether a kernel was given its code.
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
                posted=posted,
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
            if not self._file.is_open:
                return
            try:
                self.append(
                    RunClosed(status=status, reason=reason, summary=summary, cells=self._cells, turns=self._turns)
                )
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
            if not self._file.is_open:
                return
            try:
                self._sync.close()
            finally:
                self._file.close()

    def _mend(self, torn: bytes) -> None:
        try:
            sha256 = self.blob(torn)
            self._file.cut_back()
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
    replay_of: str | None = None,
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
        replay_of: Id of the run that is done again; absent when none is.
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
        replay_of=replay_of,
    )
    return Journal.create((runs or runs_folder()) / info.run_id, info, durable=durable, secrets=secrets)
