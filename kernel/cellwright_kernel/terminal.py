"""What a terminal would show of the text that was written to it.

Flows in: text as a stream carries it, in pieces that may end anywhere. Flows out: the same text with carriage returns
and backspaces applied, colours and other control sequences removed. Decided here: which control sequences mean
something (return, backspace, erase in line) and which are dropped; a rewrite leaves the characters it did not reach,
as a terminal does; that a text's cost grows with its length and no faster (0.5 µs a control character), and that of
one too long for that only both ends are cleaned and the middle is left out.
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
    r"|\x08+|\t+|\r+"  # backspaces, tabs, returns
    r"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+|\x1b"  # other control characters but newline
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,4000}[ -/]{0,4000}|\][^\x07\x1b]{0,4000}\x1b?|[PX^_][^\x1b]{0,4000}\x1b?|[ -/]{0,4000})?\Z"
)
_LINE_CHARS: Final = 65_536
"""A line longer than this is given out in parts; what was given out can't be rewritten any more."""
_END_CHARS: Final = 256 * 1024
"""So much of either end of a text is cleaned: some twenty times what is shown of one, and 0.3 s at the worst."""

Gap = tuple[int, int]
"""Where characters of a text were left out, and how many."""


class Terminal:
    """One stream's current line. Finished lines are given out as they are finished."""

    def __init__(self) -> None:
        self._line: list[str] = []  # a character each, since those in its middle are replaced
        self._added: list[str] = []  # what follows, in pieces of any length: most lines are never written over
        self._chars = 0  # of both
        self._column = 0  # never beyond the line's end
        self._blank = 0  # so many characters at the line's start are known to be spaces
        self._unfinished = ""

    def write(self, text: str) -> str:
        """Take a piece of the stream; return the lines it finished, newlines included."""
        text = self._unfinished + text
        cut = _UNFINISHED.search(text)
        self._unfinished = cut.group() if cut else ""
        if cut:
            text = text[: cut.start()]
        finished = self._write_lines(text) if _CONTROL.search(text) else self._write_plain(text)
        if self._chars > _LINE_CHARS:
            finished += self.rest()
        return finished

    @property
    def line(self) -> str:
        """The line that is not finished, as it stands now."""
        return "".join([*self._line, *self._added])

    def rest(self) -> str:
        """Give out the line that is not finished."""
        line = self.line
        self._line.clear()
        self._added.clear()
        self._chars = self._column = self._blank = 0
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
        control = sequence.group()
        match control[0]:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(0, self._column - len(control))
            case "\t":
                self._put(control)
            case _ if sequence["erase"] is not None:
                self._erase(sequence["erase"])
            case _:
                pass

    def _erase(self, part: str) -> None:
        self._settle()
        if part in ("1", "2"):
            # what is blank already is left: erasing a long line again and again must not cost its length each time
            self._line[self._blank : self._column] = " " * (self._column - self._blank)
            self._blank = max(self._blank, self._column)
        if part != "1":
            del self._line[self._column :]
            self._chars = self._column
            self._blank = min(self._blank, self._column)

    def _put(self, text: str) -> None:
        if not text:
            return
        end = self._column + len(text)
        if self._column == self._chars:
            self._added.append(text)
        else:
            self._settle()
            self._line[self._column : end] = text
            self._blank = min(self._blank, self._column)
        self._column = end
        self._chars = max(self._chars, end)

    def _settle(self) -> None:
        if self._added:
            self._line.extend("".join(self._added))
            self._added.clear()

    def _write_plain(self, text: str) -> str:
        """Write text that has no control characters: the usual case, and a flood's."""
        head, newline, last = text.rpartition("\n")
        finished = ""
        if newline:
            if self._chars:
                first, newline, head = head.partition("\n")
                self._put(first)
                finished = self.rest() + newline
            finished += head + "\n"
        self._put(last)
        return finished


def plain(text: str) -> str:
    """Return a whole text as a terminal would show it."""
    if not _CONTROL.search(text):
        return text
    terminal = Terminal()
    return terminal.write(text) + terminal.rest()


def plain_ends(text: str, gap: Gap = (0, 0)) -> tuple[str, Gap]:
    """Return a text as a terminal would show it, without its middle if it is too long to be cleaned.

    Args:
        text: Of any length.
        gap: Where characters of it were left out already, and how many; (0, 0) when none were.

    Returns:
        The text, and where characters of it are left out, and how many, control characters among them.
    """
    at, missing = gap
    if not missing:
        if len(text) <= 2 * _END_CHARS or not _CONTROL.search(text):
            return plain(text), gap
        at = _END_CHARS
    head, tail = text[: min(at, _END_CHARS)], text[max(at, len(text) - _END_CHARS) :]
    missing += len(text) - len(head) - len(tail)
    head = plain(head)
    return head + plain(tail), (len(head), missing)


def bare(text: str) -> str:
    """Return a piece of a stream without control sequences; carriage returns stay, a live view applies them."""
    return _SEQUENCE.sub(lambda found: found.group() if found.group()[0] in "\t\r" else "", text)


def without_surrogates(text: str) -> str:
    """Return text that can be encoded: pairs of surrogates joined, lone ones replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
