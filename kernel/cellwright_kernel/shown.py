"""The items of one cell, numbered, within the ceilings of a cell.

Flows in: texts and pictures in order. Flows out: events that bring the outside's list up to date. Decided here: when
there is too much, the first and the last items stay and the middle is left out, with one sentence in its place; late
output of earlier cells has a small ceiling of its own, so that it can't push out what the cell itself says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cellwright_kernel.ceilings import CELL_BYTES, CELL_CHARS, CELL_ITEMS, Allowance, LongText
from cellwright_kernel.wire import Image, KeptEvent, Output, OutputEvent, Source, Text, WithdrawnEvent

Change = OutputEvent | WithdrawnEvent | KeptEvent


@dataclass(frozen=True)
class _Room:
    items: int
    chars: int
    size_bytes: int

    def holds(self, entries: list[_Entry]) -> bool:
        return (
            len(entries) <= self.items
            and sum(entry.chars for entry in entries) <= self.chars
            and sum(entry.size_bytes for entry in entries) <= self.size_bytes
        )


_CELL: Final = _Room(CELL_ITEMS, CELL_CHARS, CELL_BYTES)
# once a cell is over: the first part, the last part, and room for the sentence between them
_HEAD: Final = _Room(80, 46_000, 12 * 1024**2)
LAST_ITEMS: Final = 18
_TAIL: Final = _Room(LAST_ITEMS, 13_000, 3 * 1024**2)
_LATE: Final = _Room(20, 12_000, 3 * 1024**2)
_KEPT_BYTES: Final = 256 * 1024
"""Text in one `KeptEvent`."""


@dataclass
class _Entry:
    number: int
    output: Output
    display_id: str | None = None
    whole: LongText | None = None
    """The whole text, where the output is cut."""

    @property
    def chars(self) -> int:
        return len(self.output.text) if isinstance(self.output, Text) else 0

    @property
    def size_bytes(self) -> int:
        """Its share of the answer: base64 of a picture, and at most four bytes a character."""
        return 4 * (len(self.output.data) + 2) // 3 if isinstance(self.output, Image) else 4 * self.chars


class Shown:
    """The outputs of one cell.

    Args:
        allowance: What whole texts may be kept.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._next = 0
        self._first: list[_Entry] = []
        self._last: list[_Entry] | None = None  # None until the cell is over its ceilings
        self._late = _Left(allowance)
        self._middle = _Left(allowance)
        self._late_chars = 0
        self._sent: set[int] = set()
        self._changed: dict[int, _Entry] = {}
        self._withdrawn: list[int] = []
        self.truncated = False

    @property
    def has_own(self) -> bool:
        """True when the cell itself has shown anything, or anything was said to the model in it."""
        return bool(self._middle.items) or any(entry.output.of_cell is None for entry in self._entries())

    def add_text(self, text: LongText, source: Source, of_cell: int | None, display_id: str | None = None) -> None:
        """Add a text at the end."""
        output, whole = self._cut(text, source, of_cell)
        self._add(_Entry(self._take_number(), output, display_id, whole))

    def add_image(self, image: Image, of_cell: int | None, display_id: str | None) -> None:
        """Add a picture at the end."""
        image = image.model_copy(update={"of_cell": of_cell})
        self._add(_Entry(self._take_number(), image, display_id))

    def is_full(self, of_cell: int | None) -> bool:
        """Whether of texts to come only the last `LAST_ITEMS` will be shown, or of an earlier cell's not even these."""
        return self._last is not None if of_cell is None else self._late.items > 0

    def leave_out_texts(self, texts: list[str], of_cell: int | None) -> None:
        """Count texts as left out that are followed by `LAST_ITEMS` more; it must be full."""
        self.truncated = True
        while of_cell is None and self._last:  # they stand before them, and would have to go as well
            entry = self._last.pop(0)
            self._withdraw(entry, kept=True)
            self._middle.add(entry)
        left = self._middle if of_cell is None else self._late
        left.add_texts(texts, self._next)
        self._next += len(texts)

    def leave_out(self, items: int, of_cell: int | None) -> None:
        """Count outputs that were left out before they came here."""
        self.truncated = True
        left = self._middle if of_cell is None else self._late
        left.add_unseen(items, self._take_number())

    def replace_text(self, display_id: str, text: LongText, source: Source) -> None:
        """Put a text in the place of everything shown under an id."""
        output, whole = self._cut(text, source, None)
        for old in self._under(display_id):
            self._replace(old, output.model_copy(update={"of_cell": old.output.of_cell}), whole)

    def replace_image(self, display_id: str, image: Image) -> None:
        """Put a picture in the place of everything shown under an id."""
        for old in self._under(display_id):
            self._replace(old, image.model_copy(update={"of_cell": old.output.of_cell}), None)

    def clear(self, of_cell: int | None) -> None:
        """Withdraw what a cell has shown; sentences of ours stay."""
        entries = self._entries()
        for entry in entries:
            if entry.output.of_cell == of_cell and not _is_notice(entry.output):
                entries = [other for other in entries if other is not entry]
                self._withdraw(entry)
        self._middle.forget()
        self._first, self._last = entries, None
        self._fit()

    def take(self) -> Iterator[Change]:
        """Yield what has changed since the last taking."""
        withdrawn, self._withdrawn = self._withdrawn, []
        for number in withdrawn:
            yield WithdrawnEvent(number=number)
        changed, self._changed = self._changed, {}
        for entry in changed.values():
            self._sent.add(entry.number)
            yield from _events(entry.number, entry.output, entry.whole)

    def close(self) -> Iterator[Change]:
        """Yield what has changed since the last taking, and what was left out."""
        if self._late.items:
            sentence = f"[{self._late.described()} that came late from earlier cells are left out here.]"
            self._add(_Entry(self._take_number(), Text(text=sentence, source="notice")))
        yield from self.take()
        if self._middle.items:
            yield from _events(self._middle.number, self._left_out(), self._middle.text)

    def so_far(self) -> Iterator[OutputEvent]:
        """Yield every output as it stands now; nothing is taken by it."""
        for entry in self._entries():
            yield OutputEvent(number=entry.number, output=entry.output)
        if self._middle.items:
            yield OutputEvent(number=self._middle.number, output=self._left_out())

    def _left_out(self) -> Text:
        return Text(
            text=f"[... {self._middle.described()} stood here and {self._middle.verb} left out: a cell may show {CELL_ITEMS} outputs, "
            f"{CELL_CHARS:,} characters and {CELL_BYTES // 1024**2} MiB. Only what is shown was cut; the code ran as if nothing was. Show less "
            "at a time to see them. ...]",
            source="notice",
            missing_chars=self._middle.chars,
        )

    def _add(self, entry: _Entry) -> None:
        if entry.output.of_cell is not None and (self._late.items or not _LATE.holds([*self._late_entries(), entry])):
            self.truncated = True
            self._late.add(entry)
            return
        (self._first if self._last is None else self._last).append(entry)
        self._changed[entry.number] = entry
        self._fit()

    def _fit(self) -> None:
        """Leave out the middle when there is too much."""
        if self._last is None:
            if _CELL.holds(self._first):
                return
            entries, self._first, self._last = self._first, [], []
            while entries and _HEAD.holds([*self._first, entries[0]]):
                self._first.append(entries.pop(0))
            self._last = entries
        while self._last and not _TAIL.holds(self._last):
            entry = self._last.pop(0)
            self.truncated = True
            self._withdraw(entry, kept=True)
            self._middle.add(entry)

    def _replace(self, entry: _Entry, output: Output, whole: LongText | None) -> None:
        entry.output, entry.whole = output, whole
        self._changed[entry.number] = entry
        self._fit()

    def _withdraw(self, entry: _Entry, *, kept: bool = False) -> None:
        self._changed.pop(entry.number, None)
        if entry.number in self._sent:
            self._sent.discard(entry.number)
            self._withdrawn.append(entry.number)
        if entry.whole is not None and not kept:
            entry.whole.release()

    def _cut(self, text: LongText, source: Source, of_cell: int | None) -> tuple[Text, LongText | None]:
        shown, missing = text.shown(is_late=of_cell is not None)
        output = Text(text=shown, source=source, of_cell=of_cell, missing_chars=missing)
        if missing:
            self.truncated = True
            return output, text
        text.release()
        return output, None

    def _under(self, display_id: str) -> list[_Entry]:
        return [entry for entry in self._entries() if entry.display_id == display_id]

    def _entries(self) -> list[_Entry]:
        return [*self._first, *(self._last or ())]

    def _late_entries(self) -> list[_Entry]:
        return [entry for entry in self._entries() if entry.output.of_cell is not None]

    def _take_number(self) -> int:
        self._next += 1
        return self._next - 1


class _Left:
    """What was left out: counted, and its text kept while the allowance lasts."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self.items = self.images = self._unseen = self._not_kept = 0
        self.number = -1  # of the first one; the sentence takes its place
        self.text = LongText(allowance)

    def forget(self) -> None:
        self.items = self.images = self._unseen = self._not_kept = 0
        self.text.release()
        self.text = LongText(self._allowance)

    def add(self, entry: _Entry) -> None:
        self._stand_at(entry.number)
        self.items += 1
        if isinstance(entry.output, Image):
            self.images += 1
            self.text.write(f"[{entry.output.media_type}, {entry.output.width} x {entry.output.height} pixels]\n")
            return
        if entry.whole is None:
            self._write(entry.output.text)
            return
        kept = entry.whole.whole()
        entry.whole.release()
        self._write(kept)
        self._not_kept += entry.whole.chars - len(kept)

    def _write(self, text: str) -> None:
        self.text.write(text if text.endswith("\n") else text + "\n")

    def add_texts(self, texts: list[str], number: int) -> None:
        self._stand_at(number)
        self.items += len(texts)
        self.text.write("".join(text if text.endswith("\n") else text + "\n" for text in texts))

    def add_unseen(self, items: int, number: int) -> None:
        self._stand_at(number)
        self.items += items
        self._unseen += items

    @property
    def chars(self) -> int:
        """Characters that they had, kept or not."""
        return self.text.chars + self._not_kept

    @property
    def verb(self) -> str:
        return "is" if self.items == 1 else "are"

    def described(self) -> str:
        outputs = "1 output" if self.items == 1 else f"{self.items:,} outputs"
        if self._unseen:  # how many characters and images they had, nobody knows
            return outputs + (", images among them," if self.images else "")
        images = f", {self.images} images among them," if self.images else ""
        return f"{outputs}{images} with {self.chars:,} {'character' if self.chars == 1 else 'characters'}"

    def _stand_at(self, number: int) -> None:
        self.number = min(self.number, number) if self.items else number


def _events(number: int, output: Output, whole: LongText | None) -> Iterator[Change]:
    if whole is not None:
        for piece in whole.pieces(_KEPT_BYTES):
            yield KeptEvent(number=number, text=piece)
    yield OutputEvent(number=number, output=output)


def _is_notice(output: Output) -> bool:
    return isinstance(output, Text) and output.source == "notice"
