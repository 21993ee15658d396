"""A text of ours -> the programs that paste it.

Flows in: their requests. Flows out: the text, as a property of their window. Decided here: which forms there are, and
that a text that is too long for one request of the X protocol goes in pieces (INCR), for as many programs at once as
ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from Xlib import X, Xatom
from Xlib.protocol.event import SelectionNotify

from cellwright_kernel.clipboard.link import TEXT_UTF8, Link

_PIECE_BYTES: Final = 200_000
"""One request of the X protocol has at most 262,140 bytes where both sides know no longer ones."""
_FORGOTTEN_S: Final = 10.0
_UTF8: Final = ("UTF8_STRING", TEXT_UTF8, "text/plain")


@dataclass
class _Pieces:
    """A long text on its way to one program."""

    window: Any
    place: int
    kind: int
    text: bytes
    sent: int = 0
    last_at: float = field(default_factory=time.monotonic)


class Serving:
    """Answers those who paste.

    Args:
        link: The connection.
        text_of: Gives the text that we own of a selection's atom, and since when by the server's clock; None for one
            that we do not own.
    """

    def __init__(self, link: Link, text_of: Callable[[int], tuple[bytes, int] | None]) -> None:
        self._link = link
        self._text_of = text_of
        self._under_way: dict[tuple[int, int], _Pieces] = {}

    def answer(self, request: Any) -> None:
        """Give a program what it asks for, or say that there is no such form."""
        place = request.property or request.target  # clients of old name no property
        owned = self._text_of(request.selection)
        is_given = owned is not None and self._give(request.requestor, place, request.target, *owned)
        request.requestor.send_event(
            SelectionNotify(
                time=request.time,
                requestor=request.requestor,
                selection=request.selection,
                target=request.target,
                property=place if is_given else X.NONE,
            )
        )

    def go_on(self, event: Any) -> None:
        """Send the next piece to the program that has taken the last one away."""
        pieces = self._under_way.get((event.window.id, event.atom))
        if pieces is None or event.state != X.PropertyDelete:
            return
        piece = pieces.text[pieces.sent : pieces.sent + _PIECE_BYTES]
        pieces.window.change_property(pieces.place, pieces.kind, 8, piece)
        pieces.sent += len(piece)
        pieces.last_at = time.monotonic()
        if not piece:  # an empty one was the last
            self._end(pieces)
        self._forget_idle()

    def _give(self, window: Any, place: int, target: int, text: bytes, since: int) -> bool:
        atom = self._link.atom
        if target == atom("MULTIPLE"):
            return self._give_each(window, place, text, since)
        if target == atom("TARGETS"):
            names = ["TARGETS", "TIMESTAMP", "MULTIPLE", *_UTF8, "TEXT"]
            names += ["STRING"] if _latin1(text) is not None else []
            window.change_property(place, Xatom.ATOM, 32, [atom(name) for name in names])
        elif target == atom("TIMESTAMP"):
            window.change_property(place, Xatom.INTEGER, 32, [since])
        elif (form := self._form(target, text)) is not None:
            self._put(window, place, *form)
        else:
            return False
        return True

    def _form(self, target: int, text: bytes) -> tuple[int, bytes] | None:
        """The text in one form, with the type of that form."""
        atom = self._link.atom
        if target in (atom(name) for name in _UTF8):
            return target, text
        if target == atom("TEXT"):
            return atom("UTF8_STRING"), text
        latin1 = _latin1(text) if target == Xatom.STRING else None
        return (Xatom.STRING, latin1) if latin1 is not None else None

    def _give_each(self, window: Any, place: int, text: bytes, since: int) -> bool:
        found = window.get_full_property(place, X.AnyPropertyType)
        if found is None or found.format != 32:
            return False
        pairs = list(found.value)
        for index in range(0, len(pairs) - 1, 2):
            target, to = pairs[index], pairs[index + 1]
            if target == self._link.atom("MULTIPLE") or not self._give(window, to, target, text, since):
                pairs[index + 1] = X.NONE
        window.change_property(place, self._link.atom("ATOM_PAIR"), 32, pairs)
        return True

    def _put(self, window: Any, place: int, kind: int, text: bytes) -> None:
        if len(text) <= _PIECE_BYTES:
            window.change_property(place, kind, 8, text)
            return
        window.change_attributes(event_mask=X.PropertyChangeMask)
        self._under_way[window.id, place] = _Pieces(window, place, kind, text)
        window.change_property(place, self._link.atom("INCR"), 32, [len(text)])

    def _end(self, pieces: _Pieces) -> None:
        del self._under_way[pieces.window.id, pieces.place]
        if not any(window == pieces.window.id for window, _ in self._under_way):
            pieces.window.change_attributes(event_mask=X.NoEventMask)

    def _forget_idle(self) -> None:
        now = time.monotonic()
        for pieces in [one for one in self._under_way.values() if now - one.last_at > _FORGOTTEN_S]:
            self._end(pieces)


def _latin1(text: bytes) -> bytes | None:
    try:
        return text.decode().encode("latin-1")
    except UnicodeError:
        return None
