"""What a run is made of: the records of its journal, one a line.

Flows in: what the session, the loop and the egress proxy saw. Flows out: typed, versioned, frozen values.
Decided here: the fields, and which of them are only the inside's word. A record whose facts come from inside lists
those fields in `claimed`; every other field was observed outside. An absent field means what its line says.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, TypeAdapter

from cellwright.record.noted import Noted
from cellwright.record.run_info import RunEnd
from cellwright.record.sent import HistoryShortened as HistoryShortened  # noqa: PLC0414 - one of the records
from cellwright.record.sent import TermsSet as TermsSet  # noqa: PLC0414 - one of the records
from cellwright.record.stored import Digest, Foreign, Milliseconds, Recorded, StoredImage, StoredOutput
from cellwright.record.way_out import Egress as Egress  # noqa: PLC0414 - one of the records
from cellwright.record.way_out import EgressMore as EgressMore  # noqa: PLC0414 - one of the records
from cellwright.record.way_out import Exchanged as Exchanged  # noqa: PLC0414 - one of the records
from cellwright.record.way_out import KeptBody as KeptBody  # noqa: PLC0414 - one of the records
from cellwright.record.way_out import RequestSent as RequestSent  # noqa: PLC0414 - one of the records
from cellwright_kernel.wire import Cell, CellStatus, Language, Rung

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


class SessionOpened(Noted):
    """A sandbox is usable and leased."""

    type: Literal["session_opened"] = "session_opened"
    session_id: str
    sandbox: dict[str, Foreign] = Field(default_factory=dict)
    """What is in force: `SandboxInfo` as JSON."""
    files: tuple[CopiedFile, ...] = ()
    """What was copied in, in order."""
    ready_ms: Milliseconds
    """From the request for a sandbox to a usable one; measured outside."""
    versions: dict[str, str] = Field(default_factory=dict)
    """What it runs on: `chromium`, `node`, `playwright`, `python`; empty when the kernel host did not say."""
    claimed: tuple[str, ...] = ("versions",)
    """Fields that are the inside's word."""


class CellOpened(Noted):
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


class CellClosed(Noted):
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
    duration_ms: Milliseconds
    """Measured outside."""
    kernel_generation: int | None = None
    """Number of the kernel process of this language afterwards; absent when the inside could not say."""
    claimed: tuple[str, ...] = CLAIMED_OF_CELL
    """Fields that are the inside's word. A status that was observed outside (`sandbox_lost`) is left out."""


class CellRunning(Noted):
    """A cell has not ended yet: what it had shown by then. Written when it was answered so, and now and then meanwhile."""

    type: Literal["cell_running"] = "cell_running"
    number: int
    outputs: tuple[StoredOutput, ...] = ()
    """In order; whole, not only what is new since the last such record. The inside's word."""
    claimed: tuple[str, ...] = ("outputs",)


class CellRebuilt(Noted):
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
    duration_ms: Milliseconds = 0
    claimed: tuple[str, ...] = ("status", "outputs")


class LateOutput(Noted):
    """Output that a cell's threads or tasks wrote after it ended, when no later cell came that would have it among its own.

    Where one came, it stands there, as the model was shown it, each output with its `of_cell`.
    """

    type: Literal["late_output"] = "late_output"
    of_cell: int
    outputs: tuple[StoredOutput, ...]
    claimed: tuple[str, ...] = ("of_cell", "outputs")


class KernelRestarted(Noted):
    """A kernel was restarted because somebody asked; its variables are gone."""

    type: Literal["kernel_restarted"] = "kernel_restarted"
    language: Language


class FileWritten(Noted):
    """A file was written into the sandbox through the files API."""

    type: Literal["file_written"] = "file_written"
    path: str
    """Relative to the sandbox's home, with `/`."""
    sha256: str
    """Hash of its content, 64 hex digits."""
    size_bytes: int
    kept: bool = False
    """True when the content is a blob of the run."""


class FileDeleted(Noted):
    """A file was deleted through the files API."""

    type: Literal["file_deleted"] = "file_deleted"
    path: str
    """Relative to the sandbox's home, with `/`."""


Purpose = Literal["summary"]
"""What a request is for that does not ask for the next turn."""


class ModelRequest(Noted):
    """A request to the model is about to be sent."""

    type: Literal["model_request"] = "model_request"
    turn: int
    """Counts from 1."""
    model: str
    parameters: dict[str, Foreign] = Field(default_factory=dict)
    """Everything that is sent but `input`: tools, instructions, budget, `previous_response_id`, ..."""
    input: tuple[Digest, ...] = ()
    """The input items in order, each by its digest; what is new among them stands in the records before."""
    image_patches: int | None = None
    """Patches of 32 by 32 pixels of the pictures in them, by what the pictures' headers say; absent: they were not counted."""
    purpose: Purpose | None = None
    """`summary`: its response takes the place of what came before, and isn't part of it; absent: it asks for the next turn."""


class ModelResponse(Noted):
    """The model's response, as it came."""

    type: Literal["model_response"] = "model_response"
    turn: int
    response: Foreign = None
    """The response's JSON."""
    duration_ms: Milliseconds
    """From the request to the whole response."""
    waited_ms: Milliseconds = 0
    """Of it, what was waited before it was asked for: for the server's turn, and between tries."""
    cut_off_at: int | None = None
    """Tokens after which it was cut off, since the budget held no more: it is no part of the conversation. Absent: it was not."""


class ModelFailed(Noted):
    """A request to the model got no usable response."""

    type: Literal["model_failed"] = "model_failed"
    turn: int
    reason: str
    """One sentence; never a credential."""
    http_status: int | None = None
    """With which the server refused it; absent when it did not, or no answer came."""


class Screen(Noted):
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


class Note(Noted):
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


class PersonAnswered(Noted):
    """A person was asked, by a cell or by the model, and has answered, or has not. The run keeps both: it is no place for secrets."""

    type: Literal["person_answered"] = "person_answered"
    question: str
    """As the inside or the model put it."""
    cell: int | None = None
    """The cell that asked; absent: the model did."""
    call_id: str | None = None
    """The model's call that asked; absent: a cell did."""
    answer: str | None = None
    """What the person said; absent when there is no answer."""
    refused: str | None = None
    """Why there is none, as a sentence."""
    waited_ms: Milliseconds | None = None
    """For how long a person was waited for; absent in runs of earlier versions."""


class ApprovalDecided(Noted):
    """A cell had to be approved before it was posted, or something before it left the sandbox; and was, or was not."""

    type: Literal["approval_decided"] = "approval_decided"
    cell: int | None = None
    """Absent: no cell ran."""
    place: str | None = None
    """Where something was to go, host and port; absent: it is about the cell itself."""
    approved: bool
    rule: str
    """Why it had to be, as a sentence."""
    by_person: bool = True
    """False when nobody decided, which is no approval; `reason` says why nobody did."""
    reason: str | None = None
    """In the person's words; absent when they gave none."""
    waited_ms: Milliseconds | None = None
    """For how long a person was waited for; absent in runs of earlier versions."""


class SessionClosed(Noted):
    """The lease has ended and the sandbox is gone."""

    type: Literal["session_closed"] = "session_closed"
    session_id: str
    reason: str | None = None
    """Why, as a sentence, where it is not the run's end: that it had been idle, ...; absent when it was simply closed."""
    files: tuple[CopiedFile, ...] = ()
    """What was copied out."""


class RunClosed(Noted):
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
    | HistoryShortened
    | TermsSet
    | Egress
    | EgressMore
    | RequestSent
    | Exchanged
    | Screen
    | Note
    | PersonAnswered
    | ApprovalDecided
    | SessionClosed
    | RunClosed
)

RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="type")])
