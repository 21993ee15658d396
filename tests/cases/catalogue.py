"""What a case is: a report of a fault, as data.

Flows in: the `*.jsonl` files beside this one, a record a line. Flows out: `Case` values, checked. Decided here: the fields
of a record, and that each says in exactly one way how it is held: by its cells, by a loop's turns, by tests that exist
elsewhere, by the part of the work it waits for, or by the reason why it cannot apply. `README.md` shows how to write one.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from cellwright_kernel.wire import CellStatus, Language, Rung

HERE = Path(__file__).parent


class Record(BaseModel):
    """Frozen; a field that is not known is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Containing(Record):
    """A text in which something stands."""

    contains: str


class Matching(Record):
    """A text in which a regular expression is found."""

    matches: str


class Picture(Record):
    """A picture of this width and height."""

    image: tuple[int, int]


class Late(Record):
    """A text that an earlier cell of the case wrote after its end."""

    late_of: int
    """Which cell of the case; 1 is the first."""
    text: str


Said = str | Containing | Matching | Picture | Late
"""One item of an answer; a plain string is its exact text."""


def _joined(code: object) -> object:
    return "\n".join(code) if isinstance(code, list) else code


class Meanwhile(Record):
    """Something that happens while a cell runs."""

    once: str
    """As soon as the cell has written this."""
    do: Literal["interrupt", "restart", "leave"]
    """`leave`: whoever waited for the cell goes away, and waits until it has ended before the next one is posted."""


class CellCase(Record):
    """One cell, and what is expected of it."""

    code: Annotated[str, BeforeValidator(_joined)]
    """A string, or a list of lines."""
    language: Language = "python"
    in_second_session: bool = False
    """True: in another session that is open beside the case's own; only with a fresh one."""
    restart_before: bool = False
    """True: its kernel is restarted first."""
    deadline_s: float | None = None
    """Absent: 30 s, which nothing should need."""
    meanwhile: Meanwhile | None = None
    status: CellStatus = "ok"
    rung: Rung | None = None
    """Absent: any, or none."""
    says: tuple[Said, ...] | None = None
    """The whole answer, item by item; absent: whatever the fields below leave open."""
    contains: tuple[str, ...] = ()
    """Each stands somewhere in the answer's texts."""
    matches: tuple[str, ...] = ()
    """Regular expressions, each found somewhere in the answer's texts."""
    lacks: tuple[str, ...] = ()
    """None stands anywhere in the answer's texts."""
    images: tuple[tuple[int, int] | None, ...] | None = None
    """Widths and heights of the answer's pictures, in order; null: any size."""
    truncated: bool | None = None
    at_most_chars: int | None = None
    """Of all the answer's texts together."""
    kept_whole: str | None = None
    """A regular expression found in a whole text that the run keeps beside a cut one."""
    within_s: float = 20.0
    """Seconds until the answer is there."""


class SpecCase(Record):
    """How the session's Spec differs from the default."""

    width: int = 1440
    height: int = 1000
    allow: tuple[str, ...] = ()
    memory_bytes: int | None = None


class Turn(Record):
    """One response of the model, its items as they come over the wire."""

    items: tuple[dict[str, JsonValue], ...]
    status: str = "completed"
    reason: str | None = None


class LoopCase(Record):
    """A run by a scripted model, and what is expected of it."""

    turns: tuple[Turn, ...]
    repeat_last: bool = False
    """The last response comes again and again."""
    status: Literal["done", "failed", "budget", "stuck", "cancelled"]
    reason: str | None = None
    """Stands in the reason of the run's end."""
    cells: int
    """Cells that were executed."""
    requests: int | None = None
    """Requests that the model got."""
    answers: tuple[tuple[str, Said], ...] = ()
    """Each call's id and what its answer says, in order, over the whole run; each call has exactly one."""
    echoed: bool = True
    """The model's items stand in the history as they came."""


class Case(Record):
    """One report."""

    id: str = Field(pattern=r"^[A-Z][0-9]{2}$")
    title: str = Field(pattern=r"\.$")
    """A sentence that says what is right."""
    session: Literal["shared", "fresh"] = "shared"
    """`fresh`: it gets a session that no other case has used or will use."""
    spec: SpecCase = SpecCase()
    cells: tuple[CellCase, ...] = ()
    gone_after_close: tuple[str, ...] = ()
    """Command lines of which no process is left once the session is closed; only with a fresh session."""
    loop: LoopCase | None = None
    covered_by: tuple[str, ...] = ()
    """Tests that hold it, as `path::name`."""
    waits_for: str | None = None
    """What has to be there first; until then nothing of it is run."""
    not_applicable: str | None = None
    """Why it cannot happen here, or must not be so."""
    note: str | None = None
    """Where it differs from the report, and why."""

    @model_validator(mode="after")
    def _is_held_in_one_way(self) -> Case:
        ways = [bool(self.cells), self.loop is not None, bool(self.covered_by), self.not_applicable is not None]
        if sum(ways) != 1 and not (self.waits_for and sum(ways) <= 1):
            raise ValueError(
                f"{self.id} must say in one way how it is held: by cells, loop, covered_by, not_applicable"
            )
        needs_fresh = self.gone_after_close or any(cell.in_second_session for cell in self.cells)
        if needs_fresh and self.session != "fresh":
            raise ValueError(f"{self.id} looks beyond its session, so it needs a fresh one")
        return self


def read_cases() -> list[Case]:
    """Return all cases, file by file."""
    return [Case.model_validate(record) for path in sorted(HERE.glob("*.jsonl")) for record in _records(path)]


def named_tests(case: Case) -> list[tuple[Path, str]]:
    """Return the file and the function of each test that holds a case."""
    root = HERE.parents[1]
    return [(root / path, name) for path, _, name in (test.partition("::") for test in case.covered_by)]


def defines(path: Path, name: str) -> bool:
    """Whether a file has a test function of this name."""
    return path.is_file() and re.search(rf"^(async )?def {re.escape(name)}\(", path.read_text(), re.M) is not None


def _records(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
