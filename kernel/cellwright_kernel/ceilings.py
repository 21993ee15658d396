"""The size limits of a cell, and how a cut is marked.

Flows in: texts of any length. Flows out: texts within the ceilings, and beside a cut one the whole, as far as it is
kept. Decided here: the numbers; that a cut is made in the middle, on the borders of lines, and says how much is
missing, how far the code was affected, and how to see the rest.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Final

from cellwright_kernel.late_pace import BYTES_PER_S

ITEM_CHARS: Final = 12_000
CELL_CHARS: Final = 60_000
CELL_ITEMS: Final = 100
CELL_BYTES: Final = 16 * 1024**2
"""The whole answer, pictures counted as base64."""
KEPT_BYTES: Final = 64 * 1024**2
"""Of the whole texts of one cell's cut outputs; what is beyond is only counted."""

_NO_EFFECT: Final = "Only what is shown was cut; the code ran as if nothing was."
_LATE_EFFECT: Final = (
    "Only what is shown was cut, but a process that its cell left running waits where it writes more than "
    f"{BYTES_PER_S // 1024**2} MiB a second."
)
_MARK_CHARS: Final = 400
"""Room for the sentence that marks a cut."""


class Allowance:
    """What one cell may still keep."""

    def __init__(self, size_bytes: int = KEPT_BYTES) -> None:
        self.left_bytes = size_bytes


class LongText:
    """A text that grows and may never end: whole while the allowance lasts, then only its tail and its length."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._kept = bytearray()
        self._tail = ""
        self._tail_began = False
        self._has_gap = False
        self.chars = 0
        """Characters written, kept or not."""

    def write(self, text: str) -> None:
        """Add to its end; `text` has no lone surrogates."""
        self.chars += len(text)
        if not self._tail_began:
            data = text.encode()
            if len(data) <= self._allowance.left_bytes:
                self._allowance.left_bytes -= len(data)
                self._kept += data
                return
            room = data[: self._allowance.left_bytes].decode(errors="ignore")
            self._allowance.left_bytes = 0
            self._kept += room.encode()
            self._tail_began = True
            text = text[len(room) :]
        self._tail = (self._tail + text)[-ITEM_CHARS:]

    def skip(self, chars: int) -> None:
        """Count characters that were written and are not here; what follows is the end of the text."""
        self.chars += chars
        self._tail_began = self._has_gap = True

    def release(self) -> None:
        """Give back what it holds of the allowance: it is not shown and not kept."""
        self._allowance.left_bytes += len(self._kept)
        self._kept = bytearray()

    def whole(self) -> str:
        """Return what is kept."""
        return self._kept.decode()

    def pieces(self, size_bytes: int) -> Iterator[str]:
        """Yield what is kept in pieces of at most so many bytes; a copy of the whole would be 64 MiB more."""
        decoder = getincrementaldecoder("utf-8")()
        for start in range(0, len(self._kept), size_bytes):
            yield decoder.decode(self._kept[start : start + size_bytes])

    def shown(self, limit: int = ITEM_CHARS, *, is_late: bool = False) -> tuple[str, int]:
        """Return the text within `limit` characters, and how many were cut out of its middle.

        Args:
            limit: Most characters.
            is_late: Whether it was written after its cell had ended.
        """
        if self.chars <= limit and not self._has_gap:
            return self.whole() + self._tail, 0
        # four bytes are the longest character; so much holds either half
        head = self._kept[: 4 * limit].decode(errors="ignore")
        if self._has_gap:
            return _cut(head, self._tail, self.chars, limit, is_late)
        tail = (self._kept[-4 * limit :].decode(errors="ignore") + self._tail)[-limit:]
        return _cut(head, tail, self.chars, limit, is_late)


def _cut(head: str, tail: str, chars: int, limit: int, is_late: bool) -> tuple[str, int]:
    half = (limit - _MARK_CHARS) // 2
    head, tail = head[:half], tail[-half:]
    # a border of lines, unless that costs more than a quarter of it
    border = head.rfind("\n") + 1
    if border > len(head) * 3 // 4:
        head = head[:border]
    border = tail.find("\n") + 1
    if border < len(tail) // 4:
        tail = tail[border:]
    missing = chars - len(head) - len(tail)
    mark = (
        f"[... {missing:,} of {chars:,} characters are left out here. {_LATE_EFFECT if is_late else _NO_EFFECT} To see "
        "the rest, print a smaller part of it, or write it to a file and read that in parts. ...]"
    )
    lead = "" if head.endswith("\n") else "\n"
    return f"{head}{lead}{mark}\n{tail}", missing
