"""Which key to strike for a keysym, on the layout that the display has now.

Flows in: the server's keyboard mapping, keysyms that are wanted. Flows out: for each a `Stroke`, a keycode with or
without Shift; where the layout has none, a spare keycode is given that keysym first.
Decided here: which keycodes are spare, which binding is given up when all are taken (the one used longest ago), and
that a binding is never taken back just because its text is typed.

A program learns of a new binding by a message, and then asks the server for the mapping *as it is by then*. A keycode that
is bound again too soon is therefore read by a slow program with its new meaning. So `bind` may be called only when the
program that reads the keys has read all of them: see `keyboard.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from Xlib import Xatom
from Xlib.display import Display

from cellwright_kernel.python.key_names import NAMED

_SHIFT_L = 0xFFE1
_PROPERTY = "_CELLWRIGHT_BOUND_KEYCODES"
"""On the root window: the keycodes that are bound, for the next kernel on this display."""
_GROUPS = 0x6000
"""Bits of the core state in which the server says which keyboard group is active."""


@dataclass(frozen=True)
class Stroke:
    """One key to strike."""

    keycode: int
    shift: bool
    """Whether Shift must be held for it."""


class Keymap:
    """The display's keyboard mapping and the spare keycodes in it."""

    def __init__(self) -> None:
        self._strokes: dict[int, Stroke] = {}
        self._many_groups: frozenset[int] = frozenset()
        self._bound: OrderedDict[int, int] = OrderedDict()  # keysym -> keycode, the one used longest ago first
        self._spare: list[int] = []
        self._width = 2

    @property
    def capacity(self) -> int:
        """How many keysyms that are not on the layout can be bound at the same time."""
        return len(self._spare) + len(self._bound)

    @property
    def shift_keycode(self) -> int:
        """The keycode of the left Shift key; 0 when the layout has none."""
        stroke = self._strokes.get(_SHIFT_L)
        return stroke.keycode if stroke else 0

    def read(self, display: Display) -> None:
        """Read the mapping anew, after a program changed it; bindings of ours that it kept are kept."""
        low, high = display.display.info.min_keycode, display.display.info.max_keycode
        rows = {low + i: tuple(row) for i, row in enumerate(display.get_keyboard_mapping(low, high - low + 1))}
        self._width = max(2, min(len(row) for row in rows.values()))
        self._bound = OrderedDict(self._still_bound(display, rows))
        modifiers = {code for row in display.get_modifier_mapping() for code in row}
        # Keycode 8 is left alone: evdev counts from there, so programs take it for "no key".
        usable = {code for code in rows if code > low} - modifiers - set(self._bound.values())
        empty = [code for code in usable if not any(rows[code])]
        self._spare = sorted(empty) + sorted(code for code in usable if _is_for_vendors_only(rows[code]))
        self._many_groups = frozenset(code for code, row in rows.items() if _has_two_groups(row))
        taken = set(self._spare) | set(self._bound.values())
        self._strokes = _strokes({code: row for code, row in rows.items() if code not in taken})

    def _still_bound(self, display: Display, rows: dict[int, tuple[int, ...]]) -> list[tuple[int, int]]:
        # An earlier kernel on this display has left its bindings; they are taken over, as those used longest ago.
        left = display.screen().root.get_full_property(display.intern_atom(_PROPERTY), Xatom.CARDINAL)
        mine = set(self._bound.values())
        older = [(max(rows[code]), code) for code in (left.value if left else ()) if code not in mine]
        return [(keysym, code) for keysym, code in [*older, *self._bound.items()] if set(rows[code]) - {0} == {keysym}]

    def stroke(self, keysym: int, state: int) -> Stroke | None:
        """Return the key for a keysym under the core `state`; None when it must be bound first."""
        if keysym in self._bound:
            self._bound.move_to_end(keysym)
            return Stroke(self._bound[keysym], shift=False)
        found = self._strokes.get(keysym)
        if found and state & _GROUPS and found.keycode in self._many_groups:
            return None  # the layout's other group is switched on: this key now means something else
        return found

    def bind(self, display: Display, keysyms: Iterable[int]) -> None:
        """Give spare keycodes these keysyms, at most `capacity` of them, on both levels so that Shift does not matter.

        The caller has seen to it that no program still has unread presses of the keycodes used longest ago.
        """
        rows: dict[int, int] = {}
        for keysym in list(keysyms)[: self.capacity]:
            code = self._spare.pop(0) if self._spare else self._bound.popitem(last=False)[1]
            self._bound[keysym] = code
            rows[code] = keysym
        for first, run in _runs(rows):
            display.change_keyboard_mapping(first, [[keysym, keysym] for keysym in run])
        root, name = display.screen().root, display.intern_atom(_PROPERTY)
        root.change_property(name, Xatom.CARDINAL, 32, list(self._bound.values()))


def _strokes(rows: dict[int, tuple[int, ...]]) -> dict[int, Stroke]:
    # The first two entries of a row are the first group without and with Shift. A keypad key's second entry
    # is reached by Num Lock, and what only AltGr or another group reaches is bound to a spare keycode instead.
    strokes: dict[int, Stroke] = {}
    for code, row in rows.items():
        if len(row) > 1 and row[1] and not 0xFF80 <= row[1] <= 0xFFBD:
            strokes.setdefault(row[1], Stroke(code, shift=row[1] != row[0]))
    plain = {row[0]: Stroke(code, shift=False) for code, row in reversed(rows.items()) if row and row[0]}
    return strokes | plain


_KEYS_WITH_A_NAME = frozenset(NAMED.values())


def _is_for_vendors_only(row: tuple[int, ...]) -> bool:
    # Media and vendor keys that no name of ours stands for: some 80 on the usual layout, beside 18 empty keycodes.
    keysyms = {keysym for keysym in row if keysym}
    return bool(keysyms) and all(keysym >= 0x1005FF00 for keysym in keysyms) and not keysyms & _KEYS_WITH_A_NAME


def _has_two_groups(row: tuple[int, ...]) -> bool:
    # Entries three and four are the second group; the server repeats the first where there is none.
    return len(row) >= 4 and any(row[2:4]) and row[2:4] != row[0:2]


def _runs(rows: dict[int, int]) -> list[tuple[int, list[int]]]:
    # One request for each run of neighbouring keycodes: every request makes every program read the mapping again.
    runs: list[tuple[int, list[int]]] = []
    for code in sorted(rows):
        if runs and runs[-1][0] + len(runs[-1][1]) == code:
            runs[-1][1].append(rows[code])
        else:
            runs.append((code, [rows[code]]))
    return runs
