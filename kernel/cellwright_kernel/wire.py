"""What crosses the line between inside and outside: values only.

Flows in: nothing; these are types. Flows out: the same types on both sides of the boundary, as JSON.
Decided here: the fields of a cell, of its outputs and of the events that stream back while it runs, what the kernel
host is started with, and what an absent field means. The inside owns this file; the outside imports it and checks every value
against it, because what comes from inside is data from a stranger. Of the inside it imports besides only what is decided for both:
`pace.py` and `secrets/placeholder.py`. What a cell asks a person with stands in `wire_people.py`.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, TypeAdapter, field_serializer

from cellwright_kernel.wire_people import PersonAskedEvent, QuestionDroppedEvent
from cellwright_kernel.wire_value import Count, Value

CODE_BYTES: Final = 64 * 1024
"""Largest code of one cell, in bytes of UTF-8."""
POST_BYTES: Final = 6 * CODE_BYTES + 4096
"""Largest request that posts a cell: its code with every character escaped as JSON allows, and room around it."""

PICTURES_BYTES: Final = 128 * 1024**2
"""Largest request that has two pictures compared."""

Language = Literal["python", "javascript"]
LANGUAGE_NAMES: Final[dict[Language, str]] = {"python": "Python", "javascript": "JavaScript"}
"""The languages as people write them."""

Channel = Literal["shell", "iopub", "stdin", "control", "hb"]
"""One of a Jupyter kernel's five sockets."""

CellStatus = Literal["ok", "error", "timeout", "interrupted", "kernel_died", "sandbox_lost", "denied", "running"]
"""How a cell ended. `running` until it has."""

Rung = Literal["interrupt", "kill_children", "kill_kernel", "replace_sandbox"]
"""The level of the deadline ladder that ended a cell."""

Source = Literal["stdout", "stderr", "log", "result", "display", "error", "notice"]
"""Where a text came from. `notice` is Cellwright's own sentence to the model."""

MediaType = Literal["image/png", "image/jpeg", "image/webp"]

Pixels = Annotated[int, Field(ge=1, lt=2**16)]


class Area(NamedTuple):
    """A rectangle of a picture, in pixels from its upper left corner; on the wire four numbers."""

    x: int
    y: int
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height} at {self.x},{self.y}"


class Text(Value):
    """One text that a cell produced."""

    type: Literal["text"] = "text"
    text: str
    """The text as the model is to read it; lone surrogates are already replaced."""
    source: Source
    of_cell: Count | None = None
    """Number of the cell that wrote it, where that is an earlier one (late output); absent: this cell."""
    missing_chars: Count = 0
    """Characters cut out of the middle; 0 when whole."""


class Image(Value):
    """One picture that a cell produced."""

    type: Literal["image"] = "image"
    media_type: MediaType
    width: Pixels
    """Pixels, as the model is to see it."""
    height: Pixels
    """Pixels, as the model is to see it."""
    data: bytes
    """The encoded file; base64 in JSON."""
    of_cell: Count | None = None
    """As in `Text`."""

    @property
    def sha256(self) -> str:
        """Hash of the encoded file, 64 hex digits."""
        return hashlib.sha256(self.data).hexdigest()


Output = Annotated[Text | Image, Field(discriminator="type")]


class Cell(Value):
    """One piece of code and what came of it: opened, gathers outputs, is closed."""

    number: int
    """Counts from 1 within the session, over both languages."""
    language: Language
    code: str
    status: CellStatus = "running"
    outputs: tuple[Output, ...] = ()
    truncated: bool = False
    """True when anything was cut or dropped at a ceiling."""
    rung: Rung | None = None
    """Which rung ended it; absent when it ended by itself."""
    started_at: str
    """Moment in UTC, ISO 8601 with milliseconds and `Z`; taken outside."""
    duration_ms: int | None = None
    """Absent while running; measured outside."""
    screen_before: str | None = None
    """SHA-256 of the last screenshot taken before it; absent when none was taken."""
    screen_after: str | None = None
    """SHA-256 of the screen after it. Absent in a cell as it was answered, since the screenshot is taken after the answer;
    filled when the cell is read from the run; absent there when it is not known what the screen showed."""

    @field_serializer("code", when_used="json")
    def _as_text(self, code: str) -> str:
        """Code that was refused for its lone surrogates can be shown all the same; the journal keeps it as it was."""
        return code.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    @property
    def text(self) -> str:
        """All text outputs, joined by newlines."""
        return "\n".join(o.text for o in self.outputs if isinstance(o, Text))

    @property
    def images(self) -> tuple[Image, ...]:
        """All image outputs, in order."""
        return tuple(o for o in self.outputs if isinstance(o, Image))


class Execute(Value):
    """The request that posts a cell to the kernel host (`POST /cells`)."""

    number: int
    language: Language
    code: str
    deadline_s: float
    """Seconds from arrival to the first rung, the interrupt. The other rungs follow one second apart."""
    waited_s: float | None = None
    """Seconds after the deadline, or after an interrupt before it, for which the cell's end is waited for; absent: as long as it
    takes."""
    named_s: float | None = None
    """What is said of its deadline: the seconds that it was given, if a part of them was over before it arrived; absent:
    `deadline_s`."""


class OutputEvent(Value):
    """An output is complete. The cell's outputs are the last ones of each number, in the order of their numbers."""

    type: Literal["output"] = "output"
    number: Count | None = None
    """Counts within the cell's stream, with gaps; one that came before is replaced (`update_display`). Absent: a new
    output after all that came before."""
    output: Output


class WithdrawnEvent(Value):
    """An output that was sent is no longer one of the cell's (`clear_output`)."""

    type: Literal["withdrawn"] = "withdrawn"
    number: Count


class KeptEvent(Value):
    """A piece of the whole text of an output that is shown cut; the pieces stand directly before its `OutputEvent`.

    Joined, they are what the run keeps. Where `Text.missing_chars` says more than they hold, the rest was only counted.
    """

    type: Literal["kept"] = "kept"
    number: Count
    """Number of the output."""
    text: str


class PieceEvent(Value):
    """Some text of an output that is not complete yet, for live views; the whole follows as an `OutputEvent`."""

    type: Literal["piece"] = "piece"
    text: str
    source: Source


class HeartbeatEvent(Value):
    """The kernel host is alive; sent about once a second while a cell runs."""

    type: Literal["heartbeat"] = "heartbeat"


SecretUse = Literal["type", "header"]
"""What a cell may have done with a secret."""


class SecretAskedEvent(Value):
    """The cell asks for a secret to be used. The outside decides, and answers at `POST /secrets/NUMBER`."""

    type: Literal["secret_asked"] = "secret_asked"
    number: Count
    """Names this question among those of the session's kernel host."""
    use: SecretUse
    name: str = Field(max_length=200)
    """As the cell gave it."""
    url: str | None = Field(default=None, max_length=2048)
    """Where the page or frame is from whose field has the keyboard; absent: it is no page's."""


class SecretAnswer(Value):
    """What the outside says: a text to type, or to give the cell; or a sentence, why not."""

    text: str | None = None
    refused: str | None = None


class ClosedEvent(Value):
    """The cell has ended; the last event of its stream."""

    type: Literal["closed"] = "closed"
    status: CellStatus
    """`running` only at the end of what a cell has shown so far (`GET /cells/running`)."""
    truncated: bool = False
    rung: Rung | None = None
    kernel_generation: Count = 1
    """Goes up by one with each new kernel process of this language, whatever the cause."""
    screen_changed: bool = True
    """False only when nothing was drawn on the desktop since the last screenshot. Absent: something may have been."""
    last_word: str | None = None
    """The notice among its outputs that tells how it was ended and what is left; absent where it ended by itself."""


_Asked = SecretAskedEvent | PersonAskedEvent | QuestionDroppedEvent
_Event = OutputEvent | WithdrawnEvent | KeptEvent | PieceEvent | HeartbeatEvent | _Asked | ClosedEvent

Event = Annotated[_Event, Field(discriminator="type")]

EVENT: TypeAdapter[_Event] = TypeAdapter(Event)


def gather(outputs: dict[int, Output], event: Event) -> None:
    """Bring a cell's outputs up to date with one event; read them with `in_order`."""
    match event:
        case OutputEvent():
            outputs[max(outputs, default=-1) + 1 if event.number is None else event.number] = event.output
        case WithdrawnEvent():
            outputs.pop(event.number, None)
        case _:
            pass


def in_order(outputs: dict[int, Output]) -> tuple[Output, ...]:
    """Return gathered outputs in the order of their numbers."""
    return tuple(outputs[number] for number in sorted(outputs))


class Forward(Value):
    """A port on the inside's loopback that leads through the egress proxy to an allowed loopback service outside."""

    host: str
    """The allowed name or address as it was given, such as `127.0.0.1` or `localhost`."""
    port: int


GroupPart = Literal["cells", "browser"]
"""What of a sandbox has a control group of its own: the kernels and all that cells start; Chromium."""


class GroupMemory(Value):
    """Memory that a control group holds what is in it to, and where the inside reads what came of it."""

    most_bytes: int
    events: tuple[str, ...]
    """Files, each with a line `oom_kill N`: so many of its processes were killed. Together they count all."""
    peak: str | None = None
    """File with the most bytes that it has had at once; absent: nobody knows."""


class MemoryLimit(Value):
    """How much memory the inside may have."""

    process_bytes: int
    """For one process of a kernel, or that a cell has started; what it reserves counts."""
    sandbox_bytes: int
    """For all of the sandbox, its files in memory among it. Enforced only where `sandbox` is there."""
    sandbox: GroupMemory | None = None
    """Absent: nothing enforces it."""
    browser: GroupMemory | None = None
    """What of it the browser may have; absent: it has no limit of its own."""


class PicturePair(Value):
    """Two pictures that are to be compared, of a run and of its replay (`POST /pictures/difference`)."""

    one: bytes
    """An encoded picture, as a cell or a screen showed it."""
    other: bytes
    masks: tuple[Area, ...] = ()
    """Not looked at."""


class PictureDifference(Value):
    """In what they differ."""

    areas: tuple[Area, ...] | None
    """From the top down; none where they look the same. Absent: one of them is no picture."""


class HostSettings(Value):
    """What the kernel host is started with (`--settings JSON`). Nothing in it is secret: the model can read it."""

    door: str
    """`fd:N`, an inherited listening socket; `unix:PATH`; or `tcp:HOST:PORT`."""
    width: int = 1440
    """Pixels of the desktop."""
    height: int = 1000
    viewport_width: int = 1440
    """Pixels of the page area in the browser window."""
    viewport_height: int = 900
    home: str = "/home/agent"
    """Where cells run; the files API is rooted here."""
    desktop: bool = True
    """False: kernels only, no display and no browser."""
    browser: bool = True
    """False: a display and its window manager only."""
    image_side: int = 2048
    """Pixels; an image wider or taller than this and than the desktop is scaled down before it is shown."""
    chromium: str = "/usr/lib/chromium/chromium"
    chromium_sandbox: bool = True
    """False only where Chromium's own sandbox cannot work."""
    browser_folder: str | None = None
    """Where Chromium keeps the memory that its processes share, and temporary files; absent: in /dev/shm and /tmp, as cells do."""
    egress_socket: str | None = None
    """Unix socket of the egress proxy; absent: there is no way out."""
    own_loopback: bool = False
    """Whether 127.0.0.1 is the sandbox's alone, so that even without a way out something can listen there and say so."""
    forwards: tuple[Forward, ...] = ()
    processes: int | None = None
    """Above so many processes and threads in the whole sandbox, kernels and what they start get no more; absent: no
    limit."""
    memory: MemoryLimit | None = None
    """Absent: no limit."""
    groups: dict[GroupPart, tuple[int, ...]] = Field(default_factory=dict)
    """Inherited descriptors: a process whose id is written to all of a part's is in that part's control groups. Absent: it
    has none."""
    call_filter: str | None = None
    """File with a filter of system calls as BPF, which the kernel host takes on first of all. Absent: it has one already."""
    env: dict[str, str] = Field(default_factory=dict)
    """Added to the kernels' environment (`--env`)."""
    params: dict[str, str] = Field(default_factory=dict)
    """What cells find as `params`, by name."""
    deterministic: bool = False
    """Whether what can be fixed is (`repeatable.py`): seeds, hashes, time zone, locale."""
    secrets: tuple[str, ...] = ()
    """Names of the secrets that cells can use; their values stay outside."""


class KernelConnection(Value):
    """What a Jupyter client must know of one kernel process, besides the way to its sockets."""

    kernel_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Names this process; another one, after a restart, has another. A tunnel is opened to it by this name."""
    key: str = Field(pattern=r"^[0-9a-f]{32}$")
    """Signs messages to and from this process, and is good for nothing else. The model's code can read it."""
    signature_scheme: Literal["hmac-sha256"] = "hmac-sha256"


class Ready(Value):
    """The answer of `GET /ready`, which waits until the inside is usable or has failed."""

    ready: bool
    missing: tuple[str, ...] = ()
    """What is not up yet, or failed, each a sentence; empty when ready."""
    versions: dict[str, str] = Field(default_factory=dict)
    """`chromium`, `node`, `playwright` and `python`, as the inside says."""


class FileInfo(Value):
    """One file below the sandbox's home."""

    path: str
    """Relative to home, with `/`."""
    size_bytes: Count
    modified_at: str
    """ISO 8601, UTC."""
