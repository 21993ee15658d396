"""A text that another program copied -> its bytes.

Flows in: a selection that somebody else owns. Flows out: its text in UTF-8. Decided here: which form is asked for
first, how long a program may take to answer, and how much it may send.
"""

from __future__ import annotations

import time
from typing import Any, Final

from Xlib import X, Xatom

from cellwright_kernel.clipboard.errors import MOST_BYTES, ClipboardError, NoText
from cellwright_kernel.clipboard.link import TEXT_UTF8, Link

ANSWER_S: Final = 2.0
"""How long another program may take for its next word."""
_WHOLE_S: Final = 15.0
"""How long for a text in pieces: one that sends a byte now and then would hold the clipboard for as long as it runs."""

_WANTED: Final = ("UTF8_STRING", TEXT_UTF8, "STRING")


class Reading:
    """Asks other programs for what they have copied.

    Args:
        link: The connection.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._answer: Any = None
        self._has_piece = False

    def take(self, event: Any) -> None:
        """Note an event of ours: the owner has answered, or its next piece is there."""
        if event.type == X.SelectionNotify:
            self._answer = event
        elif event.window == self._link.window and event.state == X.PropertyNewValue:
            self._has_piece = self._has_piece or event.atom == self._place

    def text(self, selection: int) -> bytes:
        """Return the text of a selection; an empty one when there is none.

        Raises:
            ClipboardError: it is no text, or too long, or its owner does not answer.
        """
        if self._link.display.get_selection_owner(selection) == X.NONE:
            return b""
        forms = self._forms(selection)
        for name in _WANTED:
            if forms and name not in forms:  # some give a picture's bytes to whoever asks for text
                continue
            found = self._converted(selection, self._link.atom(name))
            if found is not None:
                kind, value = found
                return value.decode("latin-1").encode() if kind == Xatom.STRING else value
        if forms:
            raise NoText(f"What was copied is no text. It can be had as {', '.join(forms)}. Nothing was read.")
        return b""

    @property
    def _place(self) -> int:
        return self._link.atom("CELLWRIGHT_TEXT")

    def _forms(self, selection: int) -> list[str]:
        found = self._asked(selection, self._link.atom("TARGETS"))
        own = {"TARGETS", "TIMESTAMP", "MULTIPLE", "SAVE_TARGETS", "DELETE"}
        return [name for name in self._link.names(found.value) if name not in own] if found else []

    def _converted(self, selection: int, target: int) -> tuple[int, bytes] | None:
        """Return one form of what was copied, with its type; None when there is no such form."""
        found = self._asked(selection, target)
        if found is None:
            return None
        if found.property_type == self._link.atom("INCR"):
            return self._gathered(found)
        if found.format != 8:
            return None
        return found.property_type, bytes(found.value)

    def _asked(self, selection: int, target: int) -> Any:
        window = self._link.window
        window.delete_property(self._place)
        self._answer = None
        window.convert_selection(selection, target, self._place, X.CurrentTime)
        if not self._link.wait(lambda: self._answer is not None, ANSWER_S):
            raise ClipboardError(
                f"The program that copied has not answered for {ANSWER_S:g} s, so nothing was read. Usually it is busy or "
                "hangs; a window of this kernel's own cannot answer while its cell waits."
            )
        if self._answer.property == X.NONE:
            return None
        return window.get_full_property(self._place, X.AnyPropertyType)

    def _gathered(self, first: Any) -> tuple[int, bytes] | None:
        """A long text comes in pieces, the next one when the last was taken away; an empty one is the end."""
        kind, size = first.property_type, 0
        pieces: list[bytes] = []
        end = time.monotonic() + _WHOLE_S
        while True:
            self._has_piece = False
            self._link.window.delete_property(self._place)
            if not self._link.wait(lambda: self._has_piece, min(ANSWER_S, end - time.monotonic())):
                raise ClipboardError("The program that copied stopped in the middle of its text. Nothing was read.")
            found = self._link.window.get_full_property(self._place, X.AnyPropertyType)
            if found is None or not found.value:
                self._link.window.delete_property(self._place)
                return kind, b"".join(pieces)
            kind = found.property_type
            pieces.append(bytes(found.value))
            size += len(found.value)
            if size > MOST_BYTES:
                raise ClipboardError(f"What was copied is longer than {MOST_BYTES >> 20} MiB. Nothing was read.")
