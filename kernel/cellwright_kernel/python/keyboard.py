"""The keyboard: texts and keys that arrive as they were written.

Flows in: texts, key names. Flows out: key events on the display, made with XTEST.
Decided here: that a text goes out in chunks and the next one follows when the programs that read it have read the last; that
no keycode is bound while any program is behind; that a press and its release are one piece; and that no key is left held,
whatever strikes in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from Xlib import X
from Xlib.display import Display

from cellwright_kernel.python import xkb
from cellwright_kernel.python.focus import Reader, await_focus_of_click, find_reader, has_caught_up, of_same_program
from cellwright_kernel.python.key_names import keysym_of, keysyms_of
from cellwright_kernel.python.keymap import Keymap, Stroke
from cellwright_kernel.python.pointer import Pointer
from cellwright_kernel.python.x_connection import Connection

_CHUNK = 64
"""Characters between two looks at the reader: an interrupt and a slow program wait for no more than that."""
_CATCH_UP_S = 0.9
_PRESS_CATCH_UP_S = 0.25
_GIVE_UP_S = 10.0
_FOCUS_S = 0.5
"""How long a window that is just opening is given to get the focus."""


class ReaderStuck(TimeoutError):
    """The focused program does not read its keys."""


class Keyboard:
    """Types on the display, through the process's one connection."""

    def __init__(self, connection: Connection, pointer: Pointer) -> None:
        self._connection = connection
        self._pointer = pointer
        self._keymap = Keymap()
        self._held: dict[str, int] = {}
        self._behind: list[Reader] = []  # have not read all that was sent to them, as far as is known

    def write(self, text: str, interval_s: float, check: Callable[[], None]) -> None:
        """Type a text; when this returns, the focused program has read it, or has had a second to do so.

        Args:
            text: any Unicode text. A newline is Enter, a tab is Tab.
            interval_s: seconds to wait after each character.
            check: called before each chunk; what it raises ends the typing.

        Raises:
            ValueError: a character that no key stands for; nothing was typed.
            RuntimeError: no window has the focus; the message says how much was typed.
            ReaderStuck: the program stopped reading; the message says how much was typed.
        """
        keysyms = keysyms_of(text)
        if not keysyms:
            return
        size = 1 if interval_s > 0 else _CHUNK
        with self._without_caps_lock():
            for start in range(0, len(keysyms), size):
                check()
                so_far, chunk = f"{start} of {len(keysyms)} characters were typed", keysyms[start : start + size]
                self._catch_up(chunk, so_far)
                self._send(chunk, so_far)
                if interval_s > 0:
                    time.sleep(interval_s)

    def press(self, key: str) -> None:
        """Press and release one key.

        Raises:
            ValueError: there is no such key; the message lists near names.
            ReaderStuck: no key stands for it, and a program that still has keys to read kept one from being made.
        """
        keysym = keysym_of(key)
        self._catch_up([keysym], "the key was not pressed", only_to_bind=True)
        with self._connection.use() as display:
            strokes, before = self._strokes(display, [keysym]), find_reader(display)
            self._strike(display, strokes)
            self._look_at_readers(display, before, _PRESS_CATCH_UP_S)

    def down(self, key: str) -> None:
        """Press a key and keep it held; see `press` for what is raised."""
        keysym = keysym_of(key)
        self._catch_up([keysym], "the key was not pressed", only_to_bind=True)
        with self._connection.use() as display:
            (stroke,), before = self._strokes(display, [keysym]), find_reader(display)
            self._with_shift(display, stroke, [X.KeyPress])
            display.sync()
            self._held[key] = stroke.keycode
            self._note(display, before)

    def up(self, key: str) -> None:
        """Release a key, whether it is held or not; see `press` for what is raised."""
        keysym = keysym_of(key)
        with self._connection.use() as display:
            code = self._held.pop(key, 0) or self._strokes(display, [keysym])[0].keycode
            display.xtest_fake_input(X.KeyRelease, code)
            display.sync()

    @contextmanager
    def held(self, keys: Sequence[str], interval_s: float = 0.0) -> Iterator[None]:
        """Hold keys down in order, and release them in reverse order however this is left."""
        for key in keys:
            keysym_of(key)  # a wrong name is found before any key is down
        try:
            for key in keys:
                self.down(key)
                time.sleep(interval_s)
            yield
        finally:
            for key in reversed(keys):
                if key in self._held:
                    self.up(key)

    def await_reader(self) -> None:
        """Give the focused program a moment to read what was sent."""
        with self._connection.use() as display:
            self._look_at_readers(display, None, _PRESS_CATCH_UP_S)

    def _send(self, keysyms: list[int], so_far: str) -> None:
        with self._connection.use() as display:
            self._await_clicked(display)
            readers: list[Reader] = []

            def has_focus() -> bool:
                readers.extend(found for found in [find_reader(display)] if found)
                return bool(readers)

            if not self._connection.wait_until(display, has_focus, _FOCUS_S):
                raise RuntimeError(
                    f"No window has the keyboard focus: {so_far}. Usually nothing was clicked yet, or the window was closed. "
                    "Click into a text field and type again."
                )
            self._strike(display, self._strokes(display, keysyms))
            self._look_at_readers(display, readers[0], _CATCH_UP_S)

    def _strokes(self, display: Display, keysyms: list[int]) -> list[Stroke]:
        self._await_clicked(display)
        missing = self._missing(display, keysyms)
        if missing:
            self._keymap.bind(display, missing, keep=keysyms)
            xkb.announce_new_keyboard(display)
            display.sync()
            self._connection.read_events(display)  # our own change's
            self._read_keymap(display)
        state = display.screen().root.query_pointer().mask
        strokes = [self._keymap.stroke(keysym, state) for keysym in keysyms]
        if None in strokes:
            raise RuntimeError(
                f"The display's keyboard has no room for {len(missing)} more characters. Usually a program is changing the "
                "layout at this moment. Nothing of this part was typed. Try again."
            )
        return [stroke for stroke in strokes if stroke]

    def _missing(self, display: Display, keysyms: list[int]) -> list[int]:
        state = display.screen().root.query_pointer().mask
        self._connection.read_events(display)
        if self._connection.keymap_changed:
            self._read_keymap(display)
        return [keysym for keysym in dict.fromkeys(keysyms) if self._keymap.stroke(keysym, state) is None]

    def _read_keymap(self, display: Display) -> None:
        self._connection.keymap_changed = False
        self._keymap.read(display)

    def _strike(self, display: Display, strokes: list[Stroke]) -> None:
        for stroke in strokes:
            self._with_shift(display, stroke, [X.KeyPress, X.KeyRelease])
        display.sync()

    def _with_shift(self, display: Display, stroke: Stroke, events: list[int]) -> None:
        # Press and release go out in one piece: a key that stays down for 0.6 s because this process was not
        # scheduled would be repeated by the server.
        shift = self._keymap.shift_keycode
        needs_shift = stroke.shift and shift not in self._held.values()
        if needs_shift:
            display.xtest_fake_input(X.KeyPress, shift)
        for event in events:
            display.xtest_fake_input(event, stroke.keycode)
        if needs_shift:
            display.xtest_fake_input(X.KeyRelease, shift)

    def _await_clicked(self, display: Display) -> None:
        if self._pointer.clicked is not None:
            clicked, self._pointer.clicked = self._pointer.clicked, None
            await_focus_of_click(self._connection, display, clicked)

    def _look_at_readers(self, display: Display, before: Reader | None, limit_s: float) -> None:
        # A key can move the focus: Enter closes a dialog, and the keys before it were another program's.
        self._note(display, before)
        self._note(display, now := find_reader(display))
        self._look_at(display, self._of_programs(display, [before, now]), limit_s)

    def _note(self, display: Display, reader: Reader | None) -> None:
        if reader is not None:  # a program reads its keys in order: its window of now is the one to ask
            mine = self._of_programs(display, [reader])
            self._behind = [*(other for other in self._behind if other not in mine), reader]

    def _of_programs(self, display: Display, readers: list[Reader | None]) -> list[Reader]:
        return [one for one in self._behind if any(other and of_same_program(display, one, other) for other in readers)]

    def _look_at(self, display: Display, readers: list[Reader], limit_s: float) -> None:
        end = time.monotonic() + limit_s
        for reader in readers:
            if has_caught_up(self._connection, display, reader, max(0.0, end - time.monotonic())):
                self._behind.remove(reader)

    def _catch_up(self, keysyms: list[int], so_far: str, *, only_to_bind: bool = False) -> None:
        """Wait for the focused program; and for all that were sent keys, where a keycode must be bound for `keysyms`."""
        end = time.monotonic() + _GIVE_UP_S
        while self._behind:
            with self._connection.use() as display:
                self._await_clicked(display)
                focused = self._of_programs(display, [] if only_to_bind else [find_reader(display)])
                awaited = list(self._behind) if self._missing(display, keysyms) else focused
                if not awaited:
                    return
                self._look_at(display, awaited, _CATCH_UP_S)
                late = [reader for reader in awaited if reader in self._behind]
                who = (
                    "The focused program"
                    if any(reader in focused for reader in late)
                    else "A program that was typed into before"
                )
            if late and time.monotonic() > end:
                self._behind = []
                raise ReaderStuck(
                    f"{who} has not read its keys for {_GIVE_UP_S:.0f} s: {so_far}. Usually it is busy or hangs. "
                    "What was typed is still on its way to it. Look at the screen before typing the rest."
                )

    @contextmanager
    def _without_caps_lock(self) -> Iterator[None]:
        with self._connection.use() as display:
            on = bool(display.screen().root.query_pointer().mask & X.LockMask)
        if on:
            self.press("capslock")
        try:
            yield
        finally:
            if on:
                self.press("capslock")


def release_all(connection: Connection) -> None:
    """Let go of every key and button that is down on the display, whoever pressed it."""
    with connection.use() as display:
        for index, byte in enumerate(display.query_keymap()):
            for bit in range(8):
                if byte >> bit & 1:
                    display.xtest_fake_input(X.KeyRelease, 8 * index + bit)
        display.sync()
    Pointer(connection).release_buttons()
