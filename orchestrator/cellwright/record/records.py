"""What a run is made of: the records of its journal, one a line.

Flows in: what the session, the loop and the egress proxy saw. Flows out: typed, versioned, frozen values.
Decided here: the fields, and which of them are only the inside's word. A record whose facts come from inside lists
those fields in `claimed`; every other field was observed outside. An absent field means what its line says.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, TypeAdapter

from cellwright.record.run_info import RunEnd, now
from cellwright.record.stored import Digest, Foreign, Recorded, StoredImage, StoredOutput
from cellwright_kernel.wire import Cell, CellStatus, Language, Rung

if TYPE_CHECKING:
    from cellwright.egress.outcome import EgressRequest

CLAIMED_OF_CELL: Final = ("status", "outputs", "truncated", "rung", "kernel_generation")
"""What of a cell's end is the inside's word, unless the outside saw it."""


class CopiedFile(Recorded):
    """One file that was copied into the sandbox, or out of it."""

    path: str
    """Relative to the sandbox's home, with `/`."""
    size_bytes: int
    sha256: str | None = None
    """Hash of its content; absent when it was not read here."""
    kept: bool = False
    """True when the content is a blob of the run."""


class _Record(Recorded):
    v: Literal[1] = 1
    at: str = Field(default_factory=now)
    """When it was noted, outside: UTC, ISO 8601 with milliseconds and `Z`."""


class SessionOpened(_Record):
    """A sandbox is usable and leased."""

    type: Literal["session_opened"] = "session_opened"
    session_id: str
    sandbox: dict[str, Foreign] = Field(default_factory=dict)
    """What is in force: `SandboxInfo` as JSON."""
    files: tuple[CopiedFile, ...] = ()
    """What was copied in, in order."""
    ready_ms: int
    """From the request for a sandbox to a usable one; measured outside."""
    versions: dict[str, str] = Field(default_factory=dict)
    """What it runs on: `chromium`, `node`, `playwright`, `python`; empty when the kernel host did not say."""
    claimed: tuple[str, ...] = ("versions",)
    """Fields that are the inside's word."""


class CellOpened(_Record):
    """A cell is about to be posted to the kernel host; on disk before it is."""

    type: Literal["cell_opened"] = "cell_opened"
    number: int
    """Counts from 1 within the run."""
    language: Language
    code: str
    started_at: str
    """The cell's own start, as in `Cell`."""
    deadline_s: float | None = None
    """Seconds until the first rung; absent when it was not said."""
    screen_before: str | None = None
    """Blob of the last screenshot taken before it; absent when none was taken."""
    turn: int | None = None
    """The model's turn that asked for it; absent when no loop drove."""
    call_id: str | None = None
    """The model's call that asked for it; absent when no loop drove."""

    @classmethod
    def of(
        cls, cell: Cell, *, deadline_s: float | None = None, turn: int | None = None, call_id: str | None = None
    ) -> Self:
        """Return the record of a cell that is about to be posted."""
        return cls(
            number=cell.number,
            language=cell.language,
            code=cell.code,
            started_at=cell.started_at,
            screen_before=cell.screen_before,
            deadline_s=deadline_s,
            turn=turn,
            call_id=call_id,
        )


class CellClosed(_Record):
    """A cell has ended."""

    type: Literal["cell_closed"] = "cell_closed"
    number: int
    status: CellStatus
    outputs: tuple[StoredOutput, ...] = ()
    """In order; what the model was shown."""
    truncated: bool = False
    """True when anything was cut or dropped at a ceiling."""
    posted: bool = True
    """False when no kernel was given its code, so that it has left nothing."""
    rung: Rung | None = None
    """Which rung ended it; absent when it ended by itself."""
    duration_ms: int
    """Measured outside."""
    kernel_generation: int | None = None
    """Number of the kernel process of this language afterwards; absent when the inside could not say."""
    claimed: tuple[str, ...] = CLAIMED_OF_CELL
    """Fields that are the inside's word. A status that was observed outside (`sandbox_lost`) is left out."""


class CellRunning(_Record):
    """A cell has not ended yet: what it had shown by then. Written when it was answered so, and now and then meanwhile."""

    type: Literal["cell_running"] = "cell_running"
    number: int
    outputs: tuple[StoredOutput, ...] = ()
    """In order; whole, not only what is new since the last such record. The inside's word."""
    claimed: tuple[str, ...] = ("outputs",)


class CellRebuilt(_Record):
    """What a cell had left in a sandbox that is gone was to be brought back in a new one: it was executed again, or not."""

    type: Literal["cell_rebuilt"] = "cell_rebuilt"
    number: int
    status: CellStatus | None = None
    """How it ended this time; absent when it was not executed again."""
    reason: str | None = None
    """Why it was not, or what was not as before, as a sentence; absent when there is nothing to say."""
    outputs: tuple[StoredOutput, ...] = ()
    is_live: bool = False
    """Whether its requests went out to the world; else the run's own record answered them."""
    duration_ms: int = 0
    claimed: tuple[str, ...] = ("status", "outputs")


class LateOutput(_Record):
    """Output that a cell's threads or tasks wrote after it ended, when no later cell came that would have it among its own.

    Where one came, it stands there, as the model was shown it, each output with its `of_cell`.
    """

    type: Literal["late_output"] = "late_output"
    of_cell: int
    outputs: tuple[StoredOutput, ...]
    claimed: tuple[str, ...] = ("of_cell", "outputs")


class KernelRestarted(_Record):
    """A kernel was restarted because somebody asked; its variables are gone."""

    type: Literal["kernel_restarted"] = "kernel_restarted"
    language: Language


class FileWritten(_Record):
    """A file was written into the sandbox through the files API."""

    type: Literal["file_written"] = "file_written"
    path: str
    """Relative to the sandbox's home, with `/`."""
    sha256: str
    """Hash of its content, 64 hex digits."""
    size_bytes: int
    kept: bool = False
    """True when the content is a blob of the run."""


class FileDeleted(_Record):
    """A file was deleted through the files API."""

    type: Literal["file_deleted"] = "file_deleted"
    path: str
    """Relative to the sandbox's home, with `/`."""


class ModelRequest(_Record):
    """A request to the model is about to be sent."""

    type: Literal["model_request"] = "model_request"
    turn: int
    """Counts from 1."""
    model: str
    parameters: dict[str, Foreign] = Field(default_factory=dict)
    """Everything that is sent but `input`: tools, instructions, budget, `previous_response_id`, ..."""
    input: tuple[Digest, ...] = ()
    """The input items in order, each by its digest; what is new among them stands in the records before."""


class ModelResponse(_Record):
    """The model's response, as it came."""

    type: Literal["model_response"] = "model_response"
    turn: int
    response: Foreign = None
    """The response's JSON."""
    duration_ms: int
    """From the request to the whole response."""


class ModelFailed(_Record):
    """A request to the model got no usable response."""

    type: Literal["model_failed"] = "model_failed"
    turn: int
    reason: str
    """One sentence; never a credential."""
    http_status: int | None = None
    """With which the server refused it; absent when it did not, or no answer came."""


class _WayOut(_Record):
    cell: int | None = None
    """Number of the cell that ran when its connection came, or the request went out; absent between cells."""
    taped: bool = False
    """Whether a run's record answered in place of the world: nothing went out."""
    rebuilt: bool = False
    """Whether it went out while what a cell had left was brought back: the cell has sent it before."""


class Egress(_WayOut):
    """Something inside asked for a way out."""

    type: Literal["egress"] = "egress"
    method: str
    """`CONNECT`, or the HTTP method of a plain request."""
    host: str
    """As the inside asked for it."""
    port: int
    allowed: bool
    reason: str | None = None
    """The allow-list entry that let it through, or why it was refused; absent when there is nothing to say."""
    address: str | None = None
    """The address that was connected to; absent when none was."""
    sent_bytes: int
    """From inside to outside."""
    received_bytes: int
    started_at: str
    """When it came: UTC, ISO 8601 with milliseconds and `Z`. `at` is when it was over."""
    duration_ms: int
    """Until it was over."""
    secrets: tuple[str, ...] | None = None
    """Names of those whose values went out in its headers, or whose placeholders it was refused for; absent: none."""

    @classmethod
    def of(cls, request: EgressRequest, *, cell: int | None = None, rebuilt: bool = False) -> Self:
        """Return the record of what the egress proxy saw while this cell ran; absent: none did."""
        return cls(cell=cell, rebuilt=rebuilt, **{**asdict(request), "secrets": request.secrets or None})


class EgressMore(_WayOut):
    """Requests for a way out, beyond those that have a record each: only counted."""

    type: Literal["egress_more"] = "egress_more"
    allowed: int = 0
    refused: int = 0
    sent_bytes: int = 0
    """From inside to outside."""
    received_bytes: int = 0

    def with_one(self, request: EgressRequest) -> Self:
        """Return it with one more counted."""
        return self.model_copy(
            update={
                "at": now(),
                "allowed": self.allowed + request.allowed,
                "refused": self.refused + (not request.allowed),
                "sent_bytes": self.sent_bytes + request.sent_bytes,
                "received_bytes": self.received_bytes + request.received_bytes,
            }
        )


class RequestSent(_WayOut):
    """A request is about to go out that may change something outside; on disk before it has."""

    type: Literal["request_sent"] = "request_sent"
    method: str
    """`CONNECT` where it cannot be read: anything may be in it."""
    host: str
    port: int
    target: str = ""
    """Path and query; empty where it cannot be read."""


class KeptBody(Recorded):
    """What a request or a response carried."""

    size_bytes: int
    sha256: str
    """Hash of all of it, 64 hex digits."""
    kept: bool = True
    """True when it is a blob of the run, or empty."""


class Exchanged(_WayOut):
    """A request that went out in clear, and its response; both as they were seen outside."""

    type: Literal["exchanged"] = "exchanged"
    method: str
    host: str
    port: int
    target: str
    """Path and query."""
    request_body: KeptBody
    status: int
    reason: str = ""
    """Of the status line."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of the response, in order."""
    body: KeptBody


class Screen(_Record):
    """A screenshot of the whole desktop."""

    type: Literal["screen"] = "screen"
    image: StoredImage
    """`image.sha256` is what a cell's `screen_before` and `screen_after` name."""
    pixels_sha256: str | None = None
    """Hash of the raw pixels, as the inside said; absent when it did not."""
    after_cell: int | None = None
    """The last cell that had ended; absent before the first. A cell without a screenshot left the screen as it was."""
    claimed: tuple[str, ...] = ("image", "pixels_sha256")
    """Fields that are the inside's word."""


class Note(_Record):
    """A sentence about the run from Cellwright itself."""

    type: Literal["note"] = "note"
    text: str
    topic: str | None = None
    """One word for programs: `repair`, `shutdown`, ...; absent when the sentence is all there is."""
    cell: int | None = None
    """The cell it is about; absent when about none."""
    call_id: str | None = None
    """The model's call that it answers; absent when none."""
    sha256: str | None = None
    """Blob that belongs to it; absent when none does."""


class SessionClosed(_Record):
    """The lease has ended and the sandbox is gone."""

    type: Literal["session_closed"] = "session_closed"
    session_id: str
    reason: str | None = None
    """Why, as a sentence, where it is not the run's end: that it had been idle, ...; absent when it was simply closed."""
    files: tuple[CopiedFile, ...] = ()
    """What was copied out."""


class RunClosed(_Record):
    """The run has ended; nothing but a resumed session follows."""

    type: Literal["run_closed"] = "run_closed"
    status: RunEnd
    reason: str | None = None
    """Why it ended so, as a sentence; absent when it is done."""
    summary: str | None = None
    """The model's last words; absent when no model drove."""
    cells: int = 0
    """Cells that were opened."""
    turns: int = 0
    """Responses of the model."""


Record: TypeAlias = (
    SessionOpened
    | CellOpened
    | CellRunning
    | CellClosed
    | CellRebuilt
    | LateOutput
    | KernelRestarted
    | FileWritten
    | FileDeleted
    | ModelRequest
    | ModelResponse
    | ModelFailed
    | Egress
    | EgressMore
    | RequestSent
    | Exchanged
    | Screen
    | Note
    | SessionClosed
    | RunClosed
)

RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])
