"""What of a run is exported, whatever the form.

Flows in: a `Run`. Flows out: its story in order: words of the model and of Cellwright, and cells; and of a cell what it showed,
one part at a time, so that no more than one picture is in memory. Decided here: what of a run is told; that words are shown
and never obeyed; how much of one text and how large a picture is taken along; and that what cannot be read is said in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, assert_never

from pydantic import JsonValue

from cellwright.counted import counted
from cellwright.errors import JournalCorrupt
from cellwright.plain import plain
from cellwright.record import Blobs, Run, StoredCell, records
from cellwright.record.stored import StoredImage, StoredOutput, StoredText
from cellwright.record.totals import messages_of
from cellwright_kernel.wire import MediaType, Source

TEXT_CHARS: Final = 200_000
"""Of one text; the middle of a longer one is left out. A kernel shows 12,000 at most, so it was made elsewhere."""
PICTURE_BYTES: Final = 32 * 1024**2
FILES_BYTES: Final = 1024**2
"""Of files that were copied in, so much travels inside a notebook or script."""

Teller = Literal["model", "cellwright"]


@dataclass(frozen=True, slots=True)
class Said:
    """Words between cells."""

    by: Teller
    title: str
    """Of ours; `turn 3`, `note`."""
    text: str
    """Plain."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text that a cell showed."""

    source: Source
    text: str
    """Plain."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a cell showed, or the screen."""

    media_type: MediaType
    width: int
    height: int
    data: bytes


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that was copied into the sandbox."""

    path: str
    """Relative, and it stays below where it begins."""
    data: bytes | None
    """Absent: the run does not keep it, or it is too large to travel along."""


def story(run: Run) -> Iterator[Said | StoredCell]:
    """Yield what happened, in order."""
    cells = {cell.opened.number: cell for cell in run.stored_cells}
    for record in run.records:
        match record:
            case records.CellOpened():
                yield cells[record.number]
            case records.ModelResponse():
                words = "\n\n".join(text for _, text in messages_of(record.response))
                if words:
                    yield Said("model", f"turn {record.turn}", short(words))
            case _:
                for title, words in _told(record):
                    yield Said("cellwright", title, short(words))


def outputs_of(cell: StoredCell) -> Iterator[StoredOutput]:
    """Yield everything a cell ever said, wherever the model was shown it."""
    own = cell.closed.outputs if cell.closed else cell.so_far
    yield from (output for output in own if output.of_cell is None)
    yield from cell.late


def shown(output: StoredOutput, blobs: Blobs) -> Words | Picture:
    """Return one output as it is exported; raises nothing for what cannot be read, but says so."""
    match output:
        case StoredText():
            return Words(output.source, short(_text(output, blobs)))
        case StoredImage(kept=False):
            return Words("notice", f"[picture of {output.width}x{output.height}: not kept, the run was full]")
        case StoredImage():
            data = picture_bytes(output.sha256, blobs)
            if data is None:
                return Words("notice", f"[picture of {output.width}x{output.height}: cannot be read from the run]")
            return Picture(output.media_type, output.width, output.height, data)
        case _:
            assert_never(output)


def short(text: str) -> str:
    """Return a text as it is exported: plain, and without the middle of what is very long."""
    if len(text) > TEXT_CHARS:
        half = TEXT_CHARS // 2
        text = f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"
    return plain(text)


def picture_bytes(sha256: str, blobs: Blobs) -> bytes | None:
    """Return the bytes of a picture; None when they are not there, were changed, or are too many."""
    try:
        if blobs.path(sha256).lstat().st_size > PICTURE_BYTES:
            return None
        return blobs.read(sha256)
    except (JournalCorrupt, OSError):
        return None


def given_files(run: Run) -> Iterator[GivenFile]:
    """Yield what was copied in or written into the sandbox from outside, each path once, as it was last."""
    files: dict[str, str | None] = {}
    for record in run.records:
        if isinstance(record, records.SessionOpened):
            files |= {file.path: file.sha256 if file.kept else None for file in record.files}
        elif isinstance(record, records.FileWritten):
            files[record.path] = record.sha256 if record.kept else None
        elif isinstance(record, records.FileDeleted):
            files.pop(record.path, None)
    room = FILES_BYTES
    for path, sha256 in files.items():
        if _stays_below(path):
            data = None if sha256 is None else _small(sha256, run.blobs, room)
            room -= len(data or b"")
            yield GivenFile(path, data)


def wanted_of_who_runs_it(run: Run, files: Iterable[GivenFile]) -> Iterator[str]:
    """Yield, each as a sentence on one line, what the cells were given that does not travel along."""
    for file in files:
        if file.data is None:
            yield f"The run was given this file too; put it here yourself: {file.path}"
    if variables := _names(run.info.spec.get("env")):
        yield f"The run was given these variables; set them: {variables}"
    if secrets := _names(run.info.spec.get("secrets")):
        yield f"The run was given secrets, and `secrets` is not there outside a sandbox: {secrets}"
    if run.info.spec.get("deterministic") is True:
        yield "The run had fixed seeds, time zone and locale, and this has not: what is drawn by lot comes out differently."


def is_endless(cell: StoredCell) -> bool:
    """Whether the cell did not end by itself, so that it may not end now."""
    return cell.closed is not None and cell.closed.status in {"timeout", "interrupted"}


def is_deadly(cell: StoredCell) -> bool:
    """Whether the cell took its kernel with it."""
    return cell.closed is not None and cell.closed.status in {"kernel_died", "sandbox_lost"}


def _told(record: records.Record) -> Iterator[tuple[str, str]]:
    """Yield title and words of what is told of a record that is no cell and no message."""
    match record:
        case records.ModelFailed():
            yield f"turn {record.turn}", f"There was no usable response. {record.reason}"
        case records.KernelRestarted():
            yield "restart", f"The {record.language} kernel was restarted: its variables were gone."
        case records.FileWritten():
            yield "file", f"File written from outside: {record.path} ({counted(record.size_bytes, 'byte')})."
        case records.FileDeleted():
            yield "file", f"File deleted from outside: {record.path}."
        case records.Egress() if not record.allowed:
            yield "egress", f"Refused: {record.method} {record.host}:{record.port}."
        case records.Note():
            yield "note", record.text
        case records.PersonAnswered():
            yield (
                "person",
                f"There was no answer: {record.refused}" if record.answer is None else f"Answer: {record.answer}",
            )
        case records.RunClosed():
            words = (f"The run ended {record.status}.", record.reason, record.summary)
            yield "end", "\n".join(word for word in words if word)
        case _:
            return


def _text(output: StoredText, blobs: Blobs) -> str:
    if output.text_sha256 is None:
        return output.text
    try:
        if blobs.path(output.text_sha256).lstat().st_size > 4 * TEXT_CHARS:
            return output.text
        return blobs.read(output.text_sha256).decode("utf-8", "replace")
    except (JournalCorrupt, OSError):
        return output.text


def _names(given: JsonValue) -> str:
    """The names of variables or secrets in a Spec, as words."""
    names = [one.get("name") if isinstance(one, dict) else one for one in given] if isinstance(given, list) else []
    return plain(" ".join(", ".join(map(str, names)).split()))


def _small(sha256: str, blobs: Blobs, room: int) -> bytes | None:
    try:
        return blobs.read(sha256) if blobs.path(sha256).lstat().st_size <= room else None
    except (JournalCorrupt, OSError):
        return None


def _stays_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not PurePosixPath(path).is_absolute()
        and ".." not in parts
        and plain(path) == path
        and path.isprintable()
    )
