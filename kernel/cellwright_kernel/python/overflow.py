"""What a cell says beyond its room: counted, and only the end of it kept.

Flows in: text after the cell's room is spent. Flows out: the last 64 KiB of it, with the number of characters left out
before. Decided here: that the end is kept, because it is where a program says how it went; and of one value or log that is
larger than the room, the beginning too.
"""

from __future__ import annotations

from collections import deque
from typing import Any

_TAIL_CHARS = 64 * 1024
_HALF_CHARS = 32 * 1024


def shortened_text(text: str) -> tuple[str, dict[str, int]]:
    """A text's beginning and end, and the notes that say what is missing between: how much, and after how much."""
    missing = len(text) - 2 * _HALF_CHARS
    if missing <= 0:
        return text, {}
    return text[:_HALF_CHARS] + text[-_HALF_CHARS:], {"missing_chars": missing, "missing_at": _HALF_CHARS}


def shortened(data: dict[str, Any]) -> dict[str, int] | None:
    """Shorten what a message shows, in place; its notes, or None when it is an image that cannot be shortened."""
    notes: dict[str, int] = {}
    for media_type, value in data.items():
        if media_type == "text/plain":
            data[media_type], notes = shortened_text(value)
        elif len(value) > 2 * _HALF_CHARS:
            return None
    return notes


class Overflow:
    """The tail of one cell's surplus."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[str, str]] = deque()
        self._kept = 0
        self._missing_chars = 0
        self._missing_items = 0

    def add(self, name: str, text: str, start: int = 0) -> None:
        """Take text of `stdout`, `stderr` or `log`, from `start` on. Copies no more of it than is kept."""
        tail = text[max(start, len(text) - _TAIL_CHARS) :]
        self._missing_chars += len(text) - start - len(tail)
        self._pieces.append((name, tail))
        self._kept += len(tail)
        while (surplus := self._kept - _TAIL_CHARS) > 0:
            first, piece = self._pieces.popleft()
            if len(piece) > surplus:  # a long piece keeps its end: a newline after it must not cost it whole
                self._pieces.appendleft((first, piece[surplus:]))
            dropped = min(surplus, len(piece))
            self._kept -= dropped
            self._missing_chars += dropped

    def count_item(self) -> None:
        """Count an image or another message that is not sent."""
        self._missing_items += 1

    def take(self) -> list[tuple[str, str, dict[str, int]]]:
        """Hand out what is kept: stream name, text and notes; the first one's notes say what is missing before it."""
        runs: list[tuple[str, list[str]]] = []
        for name, text in self._pieces:
            if name == "log" or not runs or runs[-1][0] != name:
                runs.append((name, []))
            runs[-1][1].append(text)
        if not runs and (self._missing_chars or self._missing_items):
            runs.append(("stderr", []))
        counts = {"missing_chars": self._missing_chars, "missing_items": self._missing_items}
        notes = {name: count for name, count in counts.items() if count}
        self._pieces.clear()
        self._kept = self._missing_chars = self._missing_items = 0
        return [(name, "".join(texts), notes if at == 0 else {}) for at, (name, texts) in enumerate(runs)]
