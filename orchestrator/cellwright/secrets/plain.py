"""A stream as it was written -> the same without what a terminal does not show.

Flows in: text in pieces that may end anywhere, colours and cursor moves among it. Flows out: text. Decided here: a value with
a colour in its middle is a value, so that colours go before it is looked for; and nothing is written over, since what a
terminal would make of that is known only once the line is whole.
"""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"  # device strings
    r"|\x1b[ -/]*[0-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_UNFINISHED: Final = re.compile(r"(?:\x1b(?:\[[0-?]{0,99}[ -/]{0,9}|[\]PX^_][^\x07\x1b]{0,999}\x1b?|[ -/]{0,9})?|\r)\Z")
_RETURNS: Final = re.compile(r"\r+\n?")


class Plain:
    """One stream."""

    def __init__(self) -> None:
        self._unfinished = ""

    def take(self, piece: str) -> str:
        """Add a piece; return what of it is text. A lone return becomes a new line."""
        text = self._unfinished + piece
        cut = _UNFINISHED.search(text)
        self._unfinished = cut.group() if cut else ""
        text = _SEQUENCE.sub("", text[: cut.start()] if cut else text)
        return _RETURNS.sub("\n", text)
