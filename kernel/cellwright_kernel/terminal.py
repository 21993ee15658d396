"""What a terminal would show of the text that was written to it.

Flows in: text as a stream carries it, in pieces that may end anywhere. Flows out: the same text with carriage returns
and backspaces applied, colours and other control sequences removed. Decided here: which control sequences mean
something (return, backspace, erase in line) and which are dropped; a rewrite leaves the characters it did not reach,
as a terminal does.
"""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"\x1b\[(?P<erase>[0-2]?)K"  # erase in line
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # other control sequences: colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # operating system commands: titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # device strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|[\x00-\x09\x0b-\x1f\x7f-\x9f]"  # control characters but newline; tab is put back below
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,4000}\x1b?|[PX^_][^\x1b]{0,4000}\x1b?|[ -/]*)?\Z"
)
_LINE_CHARS: Final = 65_536
"""A line longer than this is given out in parts; what was given out can't be rewritten any more."""


class Terminal:
    """One stream's current line. Finished lines are given out as they are finished."""

    def __init__(self) -> None:
        self._line = ""
        self._column = 0
        self._unfinished = ""

    def write(self, text: str) -> str:
        """Take a piece of the stream; return the lines it finished, newlines included."""
        text = self._unfinished + text
        cut = _UNFINISHED.search(text)
        self._unfinished = cut.group() if cut else ""
        if cut:
            text = text[: cut.start()]
        finished = self._write_lines(text) if _CONTROL.search(text) else self._write_plain(text)
        if len(self._line) > _LINE_CHARS:
            finished += self.rest()
        return finished

    @property
    def line(self) -> str:
        """The line that is not finished, as it stands now."""
        return self._line

    def rest(self) -> str:
        """Give out the line that is not finished."""
        line, self._line, self._column = self._line, "", 0
        return line

    def _write_lines(self, text: str) -> str:
        finished = []
        *lines, last = text.split("\n")
        for line in lines:
            self._write_sequences(line)
            finished.append(self.rest() + "\n")
        self._write_sequences(last)
        return "".join(finished)

    def _write_sequences(self, text: str) -> None:
        position = 0
        for sequence in _SEQUENCE.finditer(text):
            self._put(text[position : sequence.start()])
            position = sequence.end()
            self._obey(sequence)
        self._put(text[position:])

    def _obey(self, sequence: re.Match[str]) -> None:
        match sequence.group():
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._put("\t")
            case _ if sequence["erase"] is not None:
                self._erase(sequence["erase"])
            case _:
                pass

    def _erase(self, part: str) -> None:
        match part:
            case "1":
                self._line = " " * self._column + self._line[self._column :]
            case "2":
                self._line = " " * self._column
            case _:
                self._line = self._line[: self._column]

    def _put(self, text: str) -> None:
        end = self._column + len(text)
        self._line = self._line[: self._column].ljust(self._column) + text + self._line[end:]
        self._column = end

    def _write_plain(self, text: str) -> str:
        """Write text that has no control characters: the usual case, and a flood's."""
        head, newline, last = text.rpartition("\n")
        finished = ""
        if newline:
            first, newline, others = head.partition("\n")
            self._put(first)
            finished = self.rest() + newline + others + "\n"
        self._put(last)
        return finished


def plain(text: str) -> str:
    """Return a whole text as a terminal would show it."""
    if not _CONTROL.search(text):
        return text
    terminal = Terminal()
    return terminal.write(text) + terminal.rest()


def bare(text: str) -> str:
    """Return a piece of a stream without control sequences; carriage returns stay, a live view applies them."""
    return _SEQUENCE.sub(lambda found: found.group() if found.group() in "\t\r" else "", text)


def without_surrogates(text: str) -> str:
    """Return text that can be encoded: pairs of surrogates joined, lone ones replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
