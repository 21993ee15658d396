"""Which key to strike for a keysym, on the layout that the display has now.

Flows in: the server's keyboard mapping, keysyms that are wanted. Flows out: for each a `Stroke`, a keycode with or
without Shift; where the layout has none, a spare keycode is given that keysym first.
Decided here: which keycodes are spare, which binding is given up when all are taken (the oldest, in turn, so that
new bindings stand side by side and one request makes many), and that none is taken back because its text is typed.

A program learns of a new binding by a message, and then asks the server for the mapping *as it is by then*. A keycode that
is bound again too soon is therefore read by a slow program with its new meaning. So `bind` may be called only when the
program that reads the keys has read all of them: see `keyboard.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from Xlib import Xatom
from Xlib.display import Display

from cellwright_kernel.python.key_names import NAMED

_SHIFT_L = 0xFFE1
_PROPERTY = "_CELLWRIGHT_BOUND_KEYCODES"
"""On the root window: the keycodes that are bound, for the next kernel on this display."""
_FIRST_SPARE = 0x88
_MEANT_BY_POSITION = frozenset({0xA6, 0xA7, 0xB5, 0xD4, 0xE8, 0xE9})
"""Chromium goes by the keycode where it does not know the keysym: all below 0x88 mean something to it, and these: back,
forward, reload (a page was reloaded by the letter bound there), an application, brightness."""
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
        self._spare: list[int] = []  # ascending; bound or not
        self._bound: dict[int, int] = {}  # keysym -> spare keycode
        self._next = 0  # index in `_spare` of the keycode to bind next

    @property
    def capacity(self) -> int:
        """How many keysyms that are not on the layout can be bound at the same time."""
        return len(self._spare)

    @property
    def shift_keycode(self) -> int:
        """The keycode of the left Shift key; 0 when the layout has none."""
        stroke = self._strokes.get(_SHIFT_L)
        return stroke.keycode if stroke else 0

    def read(self, display: Display) -> None:
        """Read the mapping anew, after a program changed it; bindings of ours that it kept are kept."""
        low, high = display.display.info.min_keycode, display.display.info.max_keycode
        rows = {low + i: tuple(row) for i, row in enumerate(display.get_keyboard_mapping(low, high - low + 1))}
        # An earlier kernel on this display has left its bindings: they are taken over.
        left = display.screen().root.get_full_property(display.intern_atom(_PROPERTY), Xatom.CARDINAL)
        codes = {*self._bound.values(), *(left.value if left else ())} & rows.keys()
        self._bound = {max(rows[code]): code for code in sorted(codes) if len(set(rows[code]) - {0}) == 1}
        ours = set(self._bound.values())
        modifiers = {code for row in display.get_modifier_mapping() for code in row}
        self._spare = [
            code
            for code, row in rows.items()
            if code >= _FIRST_SPARE and code not in modifiers and code not in _MEANT_BY_POSITION
            if code in ours or not any(row) or _is_for_vendors_only(row)
        ]
        self._many_groups = frozenset(code for code, row in rows.items() if _has_two_groups(row))
        spare = set(self._spare)
        self._strokes = _strokes({code: row for code, row in rows.items() if code not in spare})

    def stroke(self, keysym: int, state: int) -> Stroke | None:
        """Return the key for a keysym under the core `state`; None when it must be bound first."""
        if keysym in self._bound:
            return Stroke(self._bound[keysym], shift=False)
        found = self._strokes.get(keysym)
        if found and state & _GROUPS and found.keycode in self._many_groups:
            return None  # the layout's other group is switched on: this key now means something else
        return found

    def bind(self, display: Display, keysyms: Collection[int], *, keep: Collection[int]) -> None:
        """Give spare keycodes these keysyms, at most `capacity` of them, on both levels so that Shift does not matter.

        The keysyms in `keep` stay bound where they are. The caller has seen to it that no program still has unread presses
        of keycodes that were bound before.
        """
        kept = {self._bound[keysym] for keysym in keep if keysym in self._bound}
        turns = [self._spare[(self._next + i) % len(self._spare)] for i in range(len(self._spare))]
        free = [code for code in turns if code not in kept]
        rows = dict(zip(free, keysyms, strict=False))
        self._bound = {keysym: code for keysym, code in self._bound.items() if code not in rows}
        self._bound |= {keysym: code for code, keysym in rows.items()}
        if rows:
            self._next = self._spare.index(list(rows)[-1]) + 1
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
    # One request for each run of neighbouring keycodes: with every request every program reads the mapping again, and
    # openbox its compose file, which takes it 28 ms unless XCOMPOSEFILE names an empty one.
    runs: list[tuple[int, list[int]]] = []
    for code in sorted(rows):
        if runs and runs[-1][0] + len(runs[-1][1]) == code:
            runs[-1][1].append(rows[code])
        else:
            runs.append((code, [rows[code]]))
    return runs
