"""The pointer: moves, buttons and the wheel, and who moved it last.

Flows in: coordinates in pixels of the desktop, button numbers of X. Flows out: pointer events, made with XTEST.
Decided here: that a place outside the desktop is an error and not the nearest corner, and when the fail-safe trips: when
the pointer stands in a corner and our own last move did not put it there.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from Xlib import X
from Xlib.display import Display
from Xlib.xobject.drawable import Window

from cellwright_kernel.python.focus import Reader, has_caught_up, pinged_client
from cellwright_kernel.python.x_connection import Connection

Place = tuple[int, int]

_BETWEEN_CLICKS_S: Final = 0.003
"""X counts time in ms, and Chromium takes two presses of the same ms for one: 7 of 40 triple clicks were double ones."""


_ARRIVES_S: Final = 0.25
"""After a button went down the window manager holds the pointer still until it has looked at the click. Of drags that
did not wait for it, 5 in 100 let go where they had begun; of keys after a click, 1 in 100 came before it."""

_DRAWN_S: Final = 0.05
"""How long a program is given to take a place of the pointer while a button is down; Chromium takes 0.5 ms. It drops places that
come faster than it looks: of a stroke of 81, 40 to 80 were drawn, each time others."""

_BEGINS_S: Final = 0.1
"""How long after its path a drag may still become one between programs; a page's did so at once in 16 of 20, and in 7
ms."""
_ASKED_S: Final = 0.25
"""How long the program below is given to say that it would take the thing, of which nobody else is told."""
_SHOWINGS: Final = 5
"""A page that had just begun did not see a single one in 5 of 20 drags."""
_DROPPED_S: Final = 1.0


class Pointer:
    """Moves the pointer of the display, through the process's one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._put_at: Place | None = None
        self._click_from = 0.0
        self._held_over: Reader | None = None  # whose window a button went down in that is still down
        self.is_dragging = False
        """Whether the button that goes up next lets something fall."""
        self.clicked: Window | None = None
        """Where a button was pressed since the last key: the focus may still be on its way there."""

    def position(self) -> Place:
        """Return where the pointer is, in pixels from the top left."""
        with self._connection.use() as display:
            return _place(display)

    def size(self) -> Place:
        """Return the desktop's present width and height in pixels."""
        with self._connection.use() as display:
            geometry = display.screen().root.get_geometry()
            return geometry.width, geometry.height

    def check(self, x: float, y: float) -> None:
        """Raise unless the place is on the desktop.

        Raises:
            ValueError: it is not; the message has the desktop's size.
        """
        width, height = self.size()
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(
                f"({x}, {y}) is outside the desktop, which is {width}x{height} pixels: x goes from 0 to {width - 1}, y from "
                f"0 to {height - 1}. The pointer was not moved and nothing was clicked. Usually the coordinates come from "
                "a picture of another size."
            )

    def move(self, x: int, y: int) -> None:
        """Move to a place; one outside the desktop, such as an overshooting tween has, is drawn to the edge."""
        width, height = self.size()
        x, y = max(0, min(int(x), width - 1)), max(0, min(int(y), height - 1))
        with self._connection.use() as display:
            display.xtest_fake_input(X.MotionNotify, x=x, y=y)
            self._connection.wait_until(display, lambda: _place(display) == (x, y), _ARRIVES_S)
            if self._held_over is not None and not has_caught_up(self._connection, display, self._held_over, _DRAWN_S):
                self._held_over = None  # it is busy, and would be for each place
        self._put_at = (x, y)

    def button(self, number: int, *, down: bool) -> None:
        """Press or release a button (1 left, 2 middle, 3 right)."""
        drops = not down and self.is_dragging and self._shows_what_it_carries()
        with self._connection.use() as display:
            if down:
                self._note_click(display, number)
            display.xtest_fake_input(X.ButtonPress if down else X.ButtonRelease, number)
            display.sync()
            self._held_over = pinged_client(display, self.clicked) if down and self.clicked is not None else None
            if not down:
                self._await_release(display, number)
            if drops:
                self._connection.wait_until(display, lambda: not _carries(display), _DROPPED_S)

    def click(self, number: int, times: int = 1) -> None:
        """Press and release a button where the pointer is; 4 to 7 are the wheel up, down, left and right."""
        at_once = 64 if number > 3 else 1
        for done in range(0, times, at_once):
            if number <= 3:
                time.sleep(max(0.0, self._click_from - time.monotonic()))
            self._press_and_release(number, min(at_once, times - done))
            self._click_from = time.monotonic() + _BETWEEN_CLICKS_S

    def release_buttons(self) -> None:
        """Let go of every button that is down."""
        with self._connection.use() as display:
            state = display.screen().root.query_pointer().mask
            for number in range(1, 6):
                if state & X.Button1Mask << (number - 1):
                    display.xtest_fake_input(X.ButtonRelease, number)
            display.sync()

    def was_moved_into(self, corners: Collection[Place]) -> Place | None:
        """Return the corner that the pointer stands in, if something other than our own last move put it there."""
        at = self.position()
        if at != self._put_at:
            self._put_at = None  # somebody else has it; when it comes back, it is they who brought it
        return at if at in corners and self._put_at is None else None

    def leave_corner(self) -> Place:
        """Move to the middle of the desktop and return that place."""
        width, height = self.size()
        self.move(width // 2, height // 2)
        return width // 2, height // 2

    def _shows_what_it_carries(self) -> bool:
        """If a program has something dragged to others, show it to the one below; return whether one has.

        It may have begun only now, and asks the one below whether it would take the thing when it sees the pointer move.
        """
        with self._connection.use() as display:
            if not self._connection.wait_until(display, lambda: _carries(display), _BEGINS_S):
                return False
            x, y = _place(display)
        for _ in range(_SHOWINGS):
            self.move(x - 1 if x else 1, y)
            self.move(x, y)
            time.sleep(_ASKED_S / _SHOWINGS)
        return True

    def _press_and_release(self, number: int, times: int) -> None:
        with self._connection.use() as display:
            self._note_click(display, number)
            for _ in range(times):
                display.xtest_fake_input(X.ButtonPress, number)
                display.xtest_fake_input(X.ButtonRelease, number)
            display.sync()
            self._await_release(display, number)

    def _await_release(self, display: Display, number: int) -> None:
        """See that the click was let through to its window: keys are not held back with it, and would come before it."""
        if number <= 3:
            mask = X.Button1Mask << (number - 1)
            root = display.screen().root
            self._connection.wait_until(display, lambda: not root.query_pointer().mask & mask, _ARRIVES_S)

    def _note_click(self, display: Display, number: int) -> None:
        if number <= 3:
            child = display.screen().root.query_pointer().child
            self.clicked = child if isinstance(child, Window) else None


def _place(display: Display) -> Place:
    found = display.screen().root.query_pointer()
    return found.root_x, found.root_y


def _carries(display: Display) -> bool:
    """Whether a program is dragging something that others may take, as pages and file managers do."""
    return bool(display.get_selection_owner(display.intern_atom("XdndSelection")) != X.NONE)
