"""Whether a run on disk is as it was written.

Flows in: a run's folder. Flows out: a `Verdict`. Decided here: everything is derived again from the bytes (each line's
hash, the chain, `run.json`, the head, each blob), and the verdict says what cannot be known. The chain finds accidents,
not forgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, assert_never

from cellwright.counted import counted
from cellwright.errors import JournalCorrupt, RunNotFound
from cellwright.record.blobs import Blobs, read_file
from cellwright.record.chain import NotSealed, digest, unseal
from cellwright.record.lines import JOURNAL, Line, Problem, Scan, scan
from cellwright.record.lock import is_locked
from cellwright.record.records import (
    ApprovalDecided,
    CellClosed,
    CellOpened,
    CellRebuilt,
    CellRunning,
    CopiedFile,
    Egress,
    EgressMore,
    Exchanged,
    FileDeleted,
    FileWritten,
    HistoryShortened,
    KernelRestarted,
    LateOutput,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    Note,
    PersonAnswered,
    Record,
    RequestSent,
    RunClosed,
    Screen,
    SessionClosed,
    SessionOpened,
    TermsSet,
)
from cellwright.record.run_info import Head, RunInfo
from cellwright.record.stored import Recorded, StoredImage, StoredText

HEAD: Final = "head.json"


class Verdict(Recorded):
    """What `verify` found."""

    folder: str
    status: Literal["whole", "open", "changed"]
    """`whole`: sealed by its head, and nothing differs. `open`: nothing differs, but the head does not reach the end, so
    what was cut off there cannot be known. `changed`: something differs from what was written."""
    records: int
    """Records that were checked."""
    blobs: int
    """Blobs that were checked."""
    problems: tuple[Problem, ...] = ()
    """What is wrong, in order of place; only those that are a change make a run `changed`."""

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        checked = f"{counted(self.records, 'record')} and {counted(self.blobs, 'blob')} checked"
        match self.status:
            case "whole":
                said = f"{checked}: the run is as it was written."
            case "open":
                said = f"{checked}: nothing differs. The run has no seal at its end: what was cut off can't be known."
            case "changed":
                said = f"{checked}: the run is not as it was written."
            case _:
                assert_never(self.status)
        if unknown := [str(problem.record) for problem in self.problems if problem.kind == "unknown"]:
            more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
            said += (
                f" Of a kind that only a newer version knows: record {', '.join(unknown[:5])}{more}; "
                "as it was written, but what it names was not checked."
            )
        return said


def verify(folder: Path) -> Verdict:
    """Check every byte of a run.

    Raises:
        RunNotFound: when there is no run at all in the folder.
    """
    is_live = is_locked(folder / JOURNAL)  # asked first: a writer that ends meanwhile leaves more, not less
    problems: list[Problem] = []
    run = _read(folder, "run.json", problems)
    journal = _read(folder, JOURNAL, problems)
    if run is None and journal is None:
        raise RunNotFound(f"{folder} is not a run: it has neither run.json nor a journal.")
    problems += _check_info(run)
    found = scan(journal or b"", digest(run or b""))
    problems += found.problems
    sealed, wrong = _check_head(folder, found, digest(run or b""))
    problems += wrong
    blobs, wrong = _check_blobs(folder, found.lines, is_live=is_live)
    problems += wrong
    is_changed = any(problem.is_change for problem in problems)
    status: Literal["whole", "open", "changed"] = "changed" if is_changed else "whole" if sealed else "open"
    return Verdict(folder=str(folder), status=status, records=len(found.lines), blobs=blobs, problems=tuple(problems))


def _read(folder: Path, name: str, problems: list[Problem]) -> bytes | None:
    try:
        return read_file(folder / name)
    except OSError as error:
        problems.append(Problem(kind="missing", file=name, what=f"cannot be read: {error.strerror}"))
        return None


def _check_info(data: bytes | None) -> Iterator[Problem]:
    if data is None:
        return
    try:
        RunInfo.model_validate_json(data)
    except ValueError:
        yield Problem(kind="changed", file="run.json", what="is not what Cellwright writes")


def _check_head(folder: Path, found: Scan, run_hash: str) -> tuple[bool, list[Problem]]:
    """Return whether the head reaches the journal's end, and what it contradicts."""
    try:
        data = read_file(folder / HEAD)
    except FileNotFoundError:
        return False, []
    except OSError as error:
        return False, [Problem(kind="changed", file=HEAD, what=f"cannot be read: {error.strerror}")]
    try:
        if not data.endswith(b"\n"):
            raise NotSealed("has no end")
        head = Head.model_validate(unseal(data[:-1]).body)
    except ValueError as error:
        what = f"{error}" if isinstance(error, NotSealed) else "is not what Cellwright writes"
        return False, [Problem(kind="changed", file=HEAD, what=what)]
    problems = []
    if head.run != run_hash:
        problems.append(Problem(kind="changed", file="run.json", what=f"does not match its hash in {HEAD}"))
    if found.count < head.count:
        what = f"is missing: {HEAD} counts {counted(head.count, 'record')}, {found.count} {'is' if found.count == 1 else 'are'} there"
        problems.append(Problem(kind="missing", file=JOURNAL, record=found.count + 1, what=what))
    at_head = next((line.hash for line in found.lines if line.number == head.count), head.last)
    if at_head != head.last:
        what = f"is not the one that {HEAD} names as the last"
        problems.append(Problem(kind="changed", file=JOURNAL, record=head.count, what=what))
    return head.count == found.count and not found.torn, problems


def _check_blobs(folder: Path, lines: Iterable[Line], *, is_live: bool) -> tuple[int, list[Problem]]:
    """Return how many blobs are as they were written, and what is wrong with the others."""
    blobs = Blobs(folder / "blobs")
    named = {sha256: line.number for line in lines for sha256 in blobs_of(line.record)}
    there = set(blobs.names())
    good, problems = 0, []
    for name in sorted(there | set(named)):
        place = f"blobs/{name}"
        if name not in there:
            problems.append(Problem(kind="missing", file=place, record=named[name], what="names a blob that is gone"))
        elif name.startswith("."):
            if not is_live:
                problems.append(Problem(kind="stray", file=place, what="was not written to its end; nothing names it"))
        else:
            try:
                blobs.read(name)
                good += 1
            except JournalCorrupt:
                what = "does not match its name: it was changed"
                problems.append(Problem(kind="changed", file=place, record=named.get(name), what=what))
    return good, problems


def blobs_of(record: Record) -> Iterator[str]:
    """Yield the hashes of the blobs that must be there because this record names them."""
    match record:
        case CellRunning() | CellClosed() | CellRebuilt() | LateOutput():
            for output in record.outputs:
                yield from _of_output(output)
        case Screen():
            yield from _of_output(record.image)
        case Note():
            yield from (record.sha256,) if record.sha256 else ()
        case FileWritten():
            yield from (record.sha256,) if record.kept else ()
        case SessionOpened() | SessionClosed():
            yield from _of_files(record.files)
        case CellOpened() | KernelRestarted() | FileDeleted() | ModelRequest() | ModelResponse() | ModelFailed():
            return
        case Exchanged():
            yield from (body.sha256 for body in (record.request_body, record.body) if body.kept and body.size_bytes)
        case Egress() | EgressMore() | RequestSent() | PersonAnswered() | ApprovalDecided():
            return
        case RunClosed() | HistoryShortened() | TermsSet():
            return
        case _:
            assert_never(record)


def _of_output(output: StoredText | StoredImage) -> Iterator[str]:
    match output:
        case StoredText():
            yield from (name for name in (output.text_sha256, output.full_sha256) if name)
        case StoredImage():
            yield from (output.sha256,) if output.kept else ()
        case _:
            assert_never(output)


def _of_files(files: Iterable[CopiedFile]) -> Iterator[str]:
    yield from (file.sha256 for file in files if file.kept and file.sha256)
