"""The bytes of a journal become its records, and what is wrong with them is named.

Flows in: `journal.jsonl` as bytes, and the hash of `run.json`. Flows out: a `Scan`: every whole record in order, the
problems, and where the whole part ends. Decided here: what is torn (by a crash, at the end, to be cut) and what was
changed (anywhere, to be reported), and that one bad line never hides the others.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from pydantic import JsonValue, ValidationError

from cellwright.errors import JournalCorrupt
from cellwright.record.chain import NotSealed, Sealed, seal, unseal
from cellwright.record.records import RECORD, Record
from cellwright.record.stored import Recorded

JOURNAL: Final = "journal.jsonl"

_BLANK: Final = b" \t\r\n"
_CELL: Final = re.compile(
    rb'\{"n":\d{1,9},"type":"cell_\w{1,20}",(?:"v":\d{1,3},)?(?:"at":"[^"]{1,40}",)?"number":(\d{1,9})\b'
)


class Problem(Recorded):
    """One thing that is wrong with a run on disk."""

    kind: Literal["changed", "missing", "torn", "unknown", "stray"]
    """`changed` and `missing` contradict the record. `torn` is a crash's last line, `unknown` a record of a newer
    version, `stray` a file that no record names: these contradict nothing."""
    file: str
    """Path below the run's folder."""
    record: int | None = None
    """Number of the record, or of the line where the record cannot be read; absent for other files."""
    what: str
    """A sentence without its subject's place."""

    @property
    def place(self) -> str:
        """Its subject: the file, and which record of it."""
        return self.file if self.record is None else f"{self.file}: record {self.record}"

    @property
    def is_change(self) -> bool:
        """Whether something differs from what was written."""
        return self.kind in {"changed", "missing"}


@dataclass(frozen=True)
class Line:
    """One record in its place."""

    number: int
    """Counts from 1."""
    record: Record
    hash: str
    """Its own hash, `sha256:` and 64 hex digits."""


@dataclass(frozen=True)
class Scan:
    """What a journal's bytes hold."""

    lines: tuple[Line, ...]
    problems: tuple[Problem, ...]
    count: int
    """Number of the last whole record; 0 when there is none."""
    last: str
    """Hash of the last whole record, or of `run.json` when there is none."""
    whole_bytes: int
    """Where the last whole record ends."""
    torn: bytes
    """What stands after it and is to be cut; empty when nothing does, or when it is not a torn end."""


def refuse_faults(problems: Iterable[Problem], folder: Path) -> None:
    """Return when every record could be read and follows the one before; a torn end is no fault.

    Raises:
        JournalCorrupt: naming the first record that is not so.
    """
    problem = next((problem for problem in problems if problem.kind != "torn"), None)
    if problem is None:
        return
    cause = "It was changed after it was written." if problem.is_change else "A newer version of Cellwright wrote it."
    raise JournalCorrupt(
        f"The run {folder.name} is not whole: {problem.place} {problem.what}. {cause} "
        f"The rest is still readable. Run `cellwright verify {folder}`."
    )


def written(number: int, record: Record, previous: str) -> tuple[bytes, Line]:
    """Return the bytes of a record's line, with newline, and the record in its place."""
    fields: dict[str, JsonValue] = record.model_dump(mode="json")
    kind = fields.pop("type")
    data, own = seal({"n": number, "type": kind, **fields, "previous": previous})
    return data, Line(number, record, own)


def scan(data: bytes, run_hash: str) -> Scan:
    """Read a journal's bytes; never raises for what they hold."""
    progress = _Progress(last=run_hash)
    for raw in io.BytesIO(data):
        progress.offset += len(raw)
        progress.line += 1
        if not raw.endswith(b"\n"):
            progress.bad("has no end: the writer was stopped in the middle of it")
            continue
        try:
            sealed = unseal(raw[:-1])
        except NotSealed as error:
            progress.bad("is empty" if not raw.strip(_BLANK) else f"{error}{_of_which_cell(raw)}")
            continue
        progress.take(sealed)
    return progress.finished(data)


def _of_which_cell(raw: bytes) -> str:
    """Say which cell a line that was changed is of, by its own word."""
    found = _CELL.match(raw)
    return f"; it is of cell {int(found[1])}" if found else ""


@dataclass
class _Progress:
    """Where the reading is."""

    last: str
    line: int = 0
    offset: int = 0
    count: int = 0
    whole_bytes: int = 0
    lines: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    trailing: list[Problem] = field(default_factory=list)
    """Bad lines since the last good one."""

    def bad(self, what: str) -> None:
        number = self.count + len(self.trailing) + 1
        self.trailing.append(Problem(kind="changed", file=JOURNAL, record=number, what=what))

    def take(self, sealed: Sealed) -> None:
        fields = dict(sealed.body)
        number, previous = fields.pop("n", None), fields.pop("previous", None)
        if not isinstance(number, int) or not isinstance(previous, str):
            self.bad("carries no number")
            return
        self._check_place(number, previous)
        self.problems += self.trailing
        self.trailing = []
        self.count, self.last, self.whole_bytes = number, sealed.hash, self.offset
        try:
            self.lines.append(Line(number, RECORD.validate_python(fields), sealed.hash))
        except ValidationError as error:
            kind = str(fields.get("type"))[:40]
            what = f"is of a kind this version does not know ({kind!r}, {error.error_count()} faults)"
            self.problems.append(Problem(kind="unknown", file=JOURNAL, record=number, what=what))

    def _check_place(self, number: int, previous: str) -> None:
        if self.trailing and number > self.count:
            return  # the line before is bad and has been reported; its hash is not known
        if number == self.count + 1 and previous == self.last:
            return
        if number == 1 and self.count == 0:
            self.problems.append(Problem(kind="changed", file="run.json", what="is not the one the journal began with"))
            return
        what = f"does not follow record {self.count}: records were removed, repeated or put in another order"
        self.problems.append(Problem(kind="changed", file=JOURNAL, record=number, what=what))

    def finished(self, data: bytes) -> Scan:
        torn = _torn(data[self.whole_bytes :])
        if torn:
            what = f"is torn: {len(torn)} bytes of it were written before the writer was stopped"
            if not torn.strip(_BLANK):
                what = "is blank"
            self.trailing = [Problem(kind="torn", file=JOURNAL, record=self.count + 1, what=what)]
        problems = (*self.problems, *self.trailing)
        return Scan(tuple(self.lines), problems, self.count, self.last, self.whole_bytes, torn)


def _torn(rest: bytes) -> bytes:
    """Return the rest when it is what a crash leaves: no newline at its end, or a part of a line and then blank ones."""
    content = rest.rstrip(_BLANK)
    if b"\n" in content:
        return b""
    after = rest[len(content) :]
    if not content or b"\n" not in after:
        return rest
    return rest if after.count(b"\n") > 1 and not content.endswith(b'"}') else b""
