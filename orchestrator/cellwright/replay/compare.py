"""A cell of the record beside the same cell of another run.

Flows in: two cells as their journals have them. Flows out: a verdict, and what it rests on. Decided here: what is compared:
the status, the texts, the pictures that were shown, and the screen afterwards; that what is written to stderr may come before
or after what else is said, since they are two pipes; and that what came late counts as the cell's, whenever it came.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Final, Literal

from cellwright.counted import counted
from cellwright.errors import JournalCorrupt
from cellwright.record import Blobs, StoredCell
from cellwright.record.stored import StoredImage, StoredOutput, StoredText
from cellwright.replay.may_differ import MayDiffer, Replaced
from cellwright_kernel.wire import Area

Differ = Callable[[bytes, bytes], Awaitable[tuple[Area, ...] | None]]
"""Returns where two pictures differ: nowhere, and they look the same; None, and one of them is no picture."""

Verdict = Literal["same", "differs", "failed"]
"""`failed`: the cell could not be done again, or not be compared."""

_CONTEXT_LINES: Final = 2
_DIFF_LINES: Final = 200
_MOST_CHARS: Final = 8 * 1024**2
"""Of a cell's texts: longer ones are the same or not, as they are."""
_LINE_CHARS: Final = 400
_HUNK_STARTS: Final = re.compile(r"(?<=[-+])\d+")
_NO_REST: Final = "It does not count: the next cell came within a second then, before the screen was known to rest."
_SAID_ELSE: Final = "It said something else."
_STDOUT: Final = "stdout"
_STDERR: Final = "stderr"


@dataclass(frozen=True, slots=True)
class PictureDiffers:
    """A picture that is not the same in both."""

    what: str
    """`screen`, or `picture 2`."""
    recorded: str | None
    """Blob of the record; absent where it has none."""
    other: str | None
    """Blob of the other run; absent where it has none."""
    areas: tuple[Area, ...] = ()
    """Where; empty when one of them is not there."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of one cell's comparison."""

    number: int
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why it is not the same, each a sentence."""
    diff: tuple[str, ...] = ()
    """Lines of a unified diff of the texts around the first that differs, what may differ taken out; at most 200."""
    pictures: tuple[PictureDiffers, ...] = ()
    may_differ: tuple[tuple[Replaced, ...], tuple[Replaced, ...]] = field(default=((), ()))
    """What was taken out, of the record and of the other run."""
    notes: tuple[str, ...] = ()
    """What does not count and is worth knowing, each a sentence: what it read from the network that the record has no answer
    to, a screen that had not come to rest."""
    recorded_ms: int = 0
    other_ms: int = 0


@dataclass(frozen=True, slots=True)
class Side:
    """A cell, and the blobs of its run."""

    blobs: Blobs
    cell: StoredCell

    @property
    def status(self) -> str:
        """How it ended."""
        return self.cell.closed.status if self.cell.closed else "without an end"

    @property
    def outputs(self) -> tuple[StoredOutput, ...]:
        """Everything it ever said."""
        own = self.cell.closed.outputs if self.cell.closed else self.cell.so_far
        return (*(output for output in own if output.of_cell is None), *self.cell.late)

    @property
    def started(self) -> datetime:
        """When it was started."""
        return datetime.fromisoformat(self.cell.opened.started_at)

    @property
    def duration_ms(self) -> int:
        """How long it took."""
        return self.cell.closed.duration_ms if self.cell.closed else 0

    def texts(self) -> str:
        """Return what it said: all but stderr, in order, then that."""
        texts = [output for output in self.outputs if isinstance(output, StoredText)]
        main = _joined([(text.source, self._whole(text)) for text in texts if text.source != _STDERR])
        errors = "".join(self._whole(text) for text in texts if text.source == _STDERR)
        return f"{main}\n--- stderr\n{errors}" if errors else main

    def pictures(self) -> list[StoredImage]:
        """Return what it showed."""
        return [output for output in self.outputs if isinstance(output, StoredImage)]

    def _whole(self, text: StoredText) -> str:
        """As the cell wrote it, if that was kept; else as the model was shown it."""
        sha256 = text.full_sha256 or text.text_sha256
        if sha256 is None:
            return text.text
        try:
            return self.blobs.read(sha256).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise JournalCorrupt(
                f"Blob {sha256} is named as a text of cell {self.cell.opened.number}, and is none."
            ) from error


async def compare(
    recorded: Side, other: Side, may_differ: MayDiffer, differ: Differ, *, had_rested: bool = True
) -> Compared:
    """Compare a cell of the record with the same cell of another run.

    Args:
        recorded: The one.
        other: The other.
        may_differ: What of the texts does not count.
        differ: Compares two pictures.
        had_rested: Whether the record's screen had come to rest. One that had not may have been on its way to what the other
            shows: that they differ is told, and does not count.

    Raises:
        JournalCorrupt: A blob of either run is missing or was changed.
    """
    reasons = [] if recorded.status == other.status else [f"It ended {other.status}; in the record, {recorded.status}."]
    shown, screens = await _shown(recorded, other, differ), await _screen(recorded, other, differ)
    reasons += [_sentence(picture) for picture in (*shown, *(screens if had_rested else ()))]
    compared = Compared(
        number=recorded.cell.opened.number,
        verdict="differs" if reasons else "same",
        reasons=tuple(reasons),
        pictures=(*shown, *screens),
        notes=() if had_rested else tuple(f"{_sentence(screen)} {_NO_REST}" for screen in screens),
        recorded_ms=recorded.duration_ms,
        other_ms=other.duration_ms,
    )
    return await asyncio.to_thread(with_texts, compared, recorded, other, may_differ)


def compare_lost(recorded: Side, other: Side) -> Compared:
    """Compare a cell that has no end in the record with the same cell, done again: there is nothing to hold it against."""
    reasons = () if other.status == "ok" else (f"It ended {other.status}; in the record, it has no end.",)
    return Compared(
        number=recorded.cell.opened.number,
        verdict="differs" if reasons else "same",
        reasons=reasons,
        notes=() if reasons else ("It has no end in the record: what it gave this time is not compared.",),
        recorded_ms=recorded.duration_ms,
        other_ms=other.duration_ms,
    )


def with_texts(compared: Compared, recorded: Side, other: Side, may_differ: MayDiffer) -> Compared:
    """Return a comparison with that of the texts in it, in place of any that was."""
    one, two = may_differ.both((recorded.texts(), recorded.started), (other.texts(), other.started), _MOST_CHARS)
    diff = () if one.text == two.text else _diff(one.text, two.text)
    rest = tuple(reason for reason in compared.reasons if reason != _SAID_ELSE)
    reasons = (*rest, _SAID_ELSE) if diff else rest
    verdict: Verdict = "differs" if reasons else "same"
    return replace(compared, verdict=verdict, reasons=reasons, diff=diff, may_differ=(one.replaced, two.replaced))


def with_network(compared: Compared, left: Sequence[tuple[str, bool]]) -> Compared:
    """Return a comparison with where the cell left the recorded network: sentences, and whether each matters."""
    reasons = (*compared.reasons, *(sentence for sentence, matters in left if matters))
    notes = (*compared.notes, *(sentence for sentence, matters in left if not matters))
    return replace(compared, verdict="differs" if reasons else compared.verdict, reasons=reasons, notes=notes)


def without_pictures(compared: Compared, why: str) -> Compared:
    """Return a comparison in which no picture counts: where one differs it is told, and why that does not matter."""
    told = {_sentence(picture) for picture in compared.pictures}
    reasons = tuple(reason for reason in compared.reasons if reason not in told)
    notes = (*compared.notes, *(f"{reason} {why}" for reason in compared.reasons if reason in told))
    return replace(compared, verdict="differs" if reasons else "same", reasons=reasons, notes=notes)


async def shows(recorded: Side, png: bytes, differ: Differ) -> bool:
    """Return whether a screenshot shows what the screen showed after a cell of the record, as far as that is known."""
    sha256 = recorded.cell.screen_after
    if sha256 is None or not recorded.blobs.has(sha256) or Blobs.name(png) == sha256:
        return True
    return await differ(recorded.blobs.read(sha256), png) == ()


async def _shown(recorded: Side, other: Side, differ: Differ) -> list[PictureDiffers]:
    ours, theirs = recorded.pictures(), other.pictures()
    found: list[PictureDiffers] = []
    for place in range(max(len(ours), len(theirs))):
        one = ours[place] if place < len(ours) else None
        two = theirs[place] if place < len(theirs) else None
        names = (one.sha256 if one else None, two.sha256 if two else None)
        areas = await _between(recorded, other, *names, differ)
        if areas is not None:
            found.append(PictureDiffers(f"picture {place + 1}", *names, areas))
    return found


async def _screen(recorded: Side, other: Side, differ: Differ) -> list[PictureDiffers]:
    one, two = recorded.cell.screen_after, other.cell.screen_after
    if one is None or two is None:  # that none could be taken says nothing of what it would have shown
        return []
    areas = await _between(recorded, other, one, two, differ)
    return [] if areas is None else [PictureDiffers("screen", one, two, areas)]


async def _between(
    recorded: Side, other: Side, one: str | None, two: str | None, differ: Differ
) -> tuple[Area, ...] | None:
    """Return where two blobs differ, nowhere in particular where one is no picture; None where they do not, or one was not kept."""
    if one == two:
        return None
    if one is None or two is None:
        return ()
    if not (recorded.blobs.has(one) and other.blobs.has(two)):
        return None
    areas = await differ(recorded.blobs.read(one), other.blobs.read(two))
    return () if areas is None else areas or None


def _sentence(picture: PictureDiffers) -> str:
    name = "The screen after it" if picture.what == "screen" else picture.what.capitalize()
    if picture.recorded is None:
        return f"{name} is not in the record."
    if picture.other is None:
        return f"{name} is only in the record."
    if not picture.areas:
        return f"{name} cannot be decoded, and its bytes are others."
    where = f"{picture.areas[0]}" + (
        f" and {counted(len(picture.areas) - 1, 'other place')}" if picture.areas[1:] else ""
    )
    return f"{name} differs: {where}."


def _diff(one: str, two: str) -> tuple[str, ...]:
    """Return how two texts differ, from the first line that does: how long difflib takes grows with the square of the lines."""
    ours, theirs = one.split("\n"), two.split("\n")
    first = next(at for at, (a, b) in enumerate(zip_longest(ours, theirs)) if a != b)
    begin = max(0, first - _CONTEXT_LINES)
    some, others = (lines[begin : first + _DIFF_LINES] for lines in (ours, theirs))
    lines = [
        _HUNK_STARTS.sub(lambda found: str(int(found[0]) + begin), line) if line.startswith("@@") else line
        for line in difflib.unified_diff(some, others, "record", "replay", n=_CONTEXT_LINES, lineterm="")
    ]
    return tuple(line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]} ..." for line in lines[:_DIFF_LINES])


def _joined(texts: Sequence[tuple[str, str]]) -> str:
    """Return texts one after the other; what a stream wrote in pieces is one, and what stands alone has lines of its own."""
    parts: list[str] = []
    last = None
    for source, text in texts:
        if source != last and parts and not parts[-1].endswith("\n"):
            parts.append("\n")
        parts.append(text if source == _STDOUT else f"{text}\n")
        last = source
    return "".join(parts)
