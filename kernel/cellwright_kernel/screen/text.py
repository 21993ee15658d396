"""Words that were read on the screen -> where a text stands.

Flows in: words with their boxes, a wanted text. Flows out: matches, in reading order. Decided here: which words stand
in one line, and that case, white space and typographic forms of quotes and dashes make no difference.
"""

from __future__ import annotations

import difflib
import itertools
import unicodedata
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, SupportsIndex, overload

from cellwright_kernel.boxes import Box, around

_GAP: Final = 1.2
"""Of the line's height: words further apart than this stand in columns or buttons of their own."""
_PLAIN: Final = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2010": "-",
        "\u2011": "-",
        "\u2013": "-",
        "\u2014": "-",
    }
)


@dataclass(frozen=True)
class Word:
    """One word that was read."""

    text: str
    box: Box
    confidence: float
    """From 0 to 1, as the reader says it."""


@dataclass(frozen=True)
class Match:
    """A place where the text stands."""

    text: str
    """The whole words, as they were read."""
    box: Box
    """Left, top, width, height, in pixels of the screen."""
    confidence: float
    """From 0 to 1: of the word that was read with the least."""

    @property
    def center(self) -> tuple[int, int]:
        """Where to click: `pyautogui.click(match.center)`."""
        left, top, width, height = self.box
        return left + width // 2, top + height // 2

    def __await__(self) -> Generator[None, None, Match]:
        """So that `await screen.wait_text(...)` is right as well."""
        return self
        yield


class Matches(list[Match]):
    """The places where a text stands, in reading order; empty when it was not read anywhere."""

    missing: str = "There is no match."
    """What to say where there is none."""

    @overload
    def __getitem__(self, at: SupportsIndex) -> Match: ...
    @overload
    def __getitem__(self, at: slice) -> list[Match]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Match | list[Match]:
        """Like a list's.

        Raises:
            LookupError: it is empty; with what is most alike.
        """
        if not self and not isinstance(at, slice):
            raise LookupError(self.missing)
        return super().__getitem__(at)

    def __await__(self) -> Generator[None, None, Matches]:
        """So that `await screen.find_text(...)` is right as well."""
        return self
        yield


def matches(words: Iterable[Word], wanted: str) -> Matches:
    """Return where `wanted` stands.

    Raises:
        TypeError: what is wanted is no `str`.
        ValueError: nothing is wanted.
    """
    if not isinstance(wanted, str):
        raise TypeError(f"The text to look for is a str; it was {wanted!r}.")
    sought = _plain(wanted)
    if not sought:
        raise ValueError("There is no text to look for: it is empty.")
    rows = lines(words)
    found = [match for line in rows for match in _in_line(line, sought)]
    all_of_them = Matches(sorted(found, key=lambda match: (match.box[1] // 10, match.box[0])))
    if not found:
        all_of_them.missing = f"{wanted!r} was not read on the screen; {read_instead(wanted, rows)}"
    return all_of_them


def read_instead(wanted: str, rows: Sequence[Sequence[Word]]) -> str:
    """Return what to say of lines among which a text is not: how much was read, and what of it is most alike."""
    read = [" ".join(word.text for word in line) for line in rows]
    alike = difflib.get_close_matches(wanted, read, n=3, cutoff=0.4)
    hint = f" Most alike: {', '.join(map(repr, alike))}." if alike else ""
    return f"{sum(map(len, rows))} words were read.{hint} Letters with accents, and those of more than 90 pixels, are often misread; `ui.find` reads none."


def lines(words: Iterable[Word]) -> list[list[Word]]:
    """Return the words of each line from left to right; what stands far apart is no line."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: word.box[1] + word.box[3] / 2):
        row = next((row for row in reversed(rows) if _is_beside(row[-1], word)), None)
        if row is None:
            rows.append([word])
        else:
            row.append(word)
    return [line for row in rows for line in _split(sorted(row, key=lambda word: word.box[0]))]


def _split(row: Sequence[Word]) -> list[list[Word]]:
    parts = [[row[0]]]
    for before, word in itertools.pairwise(row):
        gap = word.box[0] - (before.box[0] + before.box[2])
        if gap > _GAP * max(before.box[3], word.box[3]):
            parts.append([])
        parts[-1].append(word)
    return parts


def _is_beside(one: Word, other: Word) -> bool:
    """Whether they overlap vertically by half of the lower one."""
    (_, top, _, height), (_, other_top, _, other_height) = one.box, other.box
    overlap = min(top + height, other_top + other_height) - max(top, other_top)
    return 2 * overlap >= min(height, other_height)


def _in_line(line: Sequence[Word], sought: str) -> Iterable[Match]:
    text, owners = "", []
    for number, word in enumerate(line):
        part = _plain(word.text) + " "
        text += part
        owners += [number] * len(part)
    start = text.find(sought)
    while start >= 0:
        hit = line[owners[start] : owners[start + len(sought) - 1] + 1]
        yield Match(
            " ".join(word.text for word in hit), around(word.box for word in hit), min(word.confidence for word in hit)
        )
        start = text.find(sought, start + len(sought))


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_PLAIN).casefold().split())
