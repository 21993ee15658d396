"""A cell while it runs.

Flows in: events from inside, one by one. Flows out: the closed cell, and its record. Decided here: what remains when the
sandbox is lost halfway: the outputs that were whole, the pieces of those that were not, and a sentence; that no
cell may pile up more outputs out here than the ceilings inside would ever let through; and which ends are not the
inside's to claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Final

from cellwright.errors import CodeTooLarge, RecordError, SandboxLost
from cellwright.record.journal import Journal
from cellwright.record.records import LateOutput, Note
from cellwright.record.stored import StoredOutput
from cellwright_kernel.wire import (
    CODE_BYTES,
    Cell,
    CellStatus,
    ClosedEvent,
    Event,
    KeptEvent,
    Output,
    OutputEvent,
    PieceEvent,
    Rung,
    Source,
    Text,
    WithdrawnEvent,
    gather,
    in_order,
)

OUTPUTS: Final = 1000
"""Most outputs believed of one cell; the ceiling inside is 100, and late ones come on top."""

NOTICE_CHARS: Final = 2000
"""Most of a notice that came when no cell did; ours have some hundred."""

_ENDS: Final = frozenset[CellStatus]({"ok", "error", "timeout", "interrupted", "kernel_died"})
"""What a kernel host may say of a cell's end; that a sandbox was lost, or a cell denied, is seen from outside."""

OnEvent = Callable[[Event], None]
"""Called with each event of a running cell, in the session's event loop; it must not block."""


class RunningCell:
    """What has come of a cell so far.

    Args:
        notices: Sentences that stand before its own outputs: what was noticed since the cell before.
        on_event: Gets every event as it arrives.
    """

    def __init__(self, notices: list[Text], on_event: OnEvent | None) -> None:
        self._notices = notices
        self._outputs: dict[int, Output] = {}
        # bytes, since millions of tiny texts would take ten times the memory that they took on the wire
        self._wholes: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._pieces: defaultdict[Source, bytearray] = defaultdict(bytearray)
        self._on_event = on_event
        self._status: CellStatus = "running"
        self._rung: Rung | None = None
        self._truncated = False
        self._kernel_generation: int | None = None
        self._last_word: str | None = None
        self._is_posted = True
        self.screen_changed = True
        """False only when the kernel host says that nothing was drawn since its last screenshot."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """What is whole of it by now."""
        return in_order(self._outputs)

    @property
    def notices(self) -> tuple[Text, ...]:
        """Sentences that stand before its own outputs."""
        return tuple(self._notices)

    def take(self, event: Event) -> None:
        """Add one event from inside.

        Raises:
            SandboxLost: It says what no kernel host says, or more than one does.
        """
        match event:
            case OutputEvent() | WithdrawnEvent():
                gather(self._outputs, event)
                self._pieces.clear()
            case KeptEvent(number=number, text=text):
                self._wholes[number] += text.encode()
            case PieceEvent(source=source, text=text):
                self._pieces[source] += text.encode()
            case ClosedEvent():
                if event.status not in _ENDS or event.rung == "replace_sandbox":
                    raise SandboxLost(f"The kernel host closed a cell as {event.status}, which is not its to say.")
                self._status, self._rung, self._truncated = event.status, event.rung, event.truncated
                self._kernel_generation, self._last_word = event.kernel_generation, event.last_word
                self.screen_changed = event.screen_changed
            case _:  # nothing to keep
                pass
        if len(self._outputs) > OUTPUTS or len(self._wholes) > OUTPUTS:
            raise SandboxLost(f"The kernel host sent more than {OUTPUTS} outputs for one cell.")
        if self._on_event is not None:
            self._on_event(event)

    def refused(self, sentence: str) -> None:
        """Close it as an error of its code, which was not posted."""
        self._add(Text(text=sentence, source="error"))
        self._is_posted, self._status = False, "error"

    def still_starting(self) -> None:
        """Close it as an error: there was no sandbox for it in time."""
        self.refused("The sandbox was still starting when the time was over. Nothing ran. Make the same call again.")

    def denied(self, sentence: str) -> None:
        """Close it as denied: a rule or a person did not let it be posted."""
        self._add(Text(text=sentence, source="notice"))
        self._is_posted, self._status = False, "denied"

    def not_posted(self) -> None:
        """Close it as interrupted before it was executed."""
        self._is_posted, self._status = False, "interrupted"
        self._add_last_word("The cell was interrupted on request before it was executed. Nothing of it ran.")

    def closed_with_its_session(self) -> None:
        """Say that nothing is left, in place of what was said of that before."""
        said = Text(text=self._last_word or "", source="notice")
        self._outputs = {number: output for number, output in self._outputs.items() if output != said}
        if self._is_posted:
            what = "The session was closed while this cell ran, and its sandbox ended with it: variables, files and windows are gone."
        else:
            what = "The session was closed before this cell was executed. Nothing of it ran."
        self._add_last_word(what)

    def lost(self, reason: str) -> None:
        """Keep the pieces of outputs that never became whole; partial output survives every rung."""
        for source, piece in self._pieces.items():
            self._add(Text(text=piece.decode(), source=source))
        self._add_last_word(
            f"The sandbox was lost while this cell ran, and ended. {reason} Its variables, files and windows are gone. "
            "The next cell starts in a new, empty sandbox."
        )
        self._status, self._rung = "sandbox_lost", "replace_sandbox"

    def close(self, cell: Cell, *, duration_ms: int) -> Cell:
        """Return the cell with everything that came of it."""
        return cell.model_copy(
            update={
                "status": self._status,
                "rung": self._rung,
                "truncated": self._truncated,
                "outputs": (*self._notices, *in_order(self._outputs)),
                "duration_ms": duration_ms,
            }
        )

    def record(self, cell: Cell, journal: Journal) -> None:
        """Write the closed cell into the journal; pictures and long texts become blobs.

        Raises:
            RecordError: It could not be written; the sentence says that the cell ran, since nothing else will.
        """
        is_ours = cell.status == "sandbox_lost" or self._kernel_generation is None
        observed = ("status", "rung", "kernel_generation") if is_ours else ()
        places = enumerate(sorted(self._outputs), start=len(self._notices))
        wholes = {place: self._wholes[number].decode() for place, number in places if number in self._wholes}
        try:
            journal.cell_closed(
                cell,
                kernel_generation=self._kernel_generation,
                observed=observed,
                wholes=wholes,
                posted=self._is_posted,
            )
        except RecordError as error:
            raise type(error)(
                f"The cell ran, and ended as {cell.status!r}, but what it gave is lost. {error}"
            ) from error

    def record_late(self, journal: Journal) -> None:
        """Write what came after the last cells: of each cell its outputs, and what was to be said of them as notes."""
        late: defaultdict[int, list[StoredOutput]] = defaultdict(list)
        for number in sorted(self._outputs):
            output = self._outputs[number]
            if output.of_cell is not None:
                own = output.model_copy(update={"of_cell": None})
                whole = self._wholes[number].decode() if number in self._wholes else None
                late[output.of_cell].append(journal.store(own, cell=output.of_cell, whole=whole))
            elif isinstance(output, Text):
                journal.append(Note(topic="late", text=output.text[:NOTICE_CHARS]))
        for of_cell, outputs in late.items():
            journal.append(LateOutput(of_cell=of_cell, outputs=tuple(outputs)))

    def _add_last_word(self, sentence: str) -> None:
        """Say how it ended and what is left."""
        self._last_word = sentence
        self._add(Text(text=sentence, source="notice"))

    def _add(self, text: Text) -> None:
        gather(self._outputs, OutputEvent(output=text))


def check_size(code: str) -> None:
    """Return when code is not longer than a cell may be.

    Raises:
        CodeTooLarge: It is.
    """
    if len(code.encode("utf-8", "surrogatepass")) > CODE_BYTES:
        raise CodeTooLarge(
            f"The code has more than {CODE_BYTES} bytes. Usually data was pasted into it. Nothing ran. "
            "Send it in parts, or as a file."
        )


def not_executable(code: str) -> str | None:
    """Return what is to be said of code that is no text, or None. No kernel's compiler, and no JSON, takes such code."""
    try:
        code.encode()
    except UnicodeEncodeError as error:
        lines = code[: error.start + 1].split("\n")
        return (
            f"The code was not executed: character {len(lines[-1])} of line {len(lines)} is a lone surrogate "
            f"(U+{ord(code[error.start]):04X}), half of a character. Usually an escape was decoded once too often. "
            f"Write it as the escape \\u{ord(code[error.start]):04x} in a string, or leave it out."
        )
    return None
