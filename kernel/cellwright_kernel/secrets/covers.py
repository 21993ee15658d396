"""Covers: what lies over a field in a program's window, so that no picture of the screen shows it.

Flows in: windows and boxes. Flows out: X windows of one colour. Decided here: a cover is a child of the program's window, so
that it moves, is hidden and ends with it, and every picture that the X server gives has it, whoever takes it; clicks go
through it; it stays as long as its window.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from Xlib import X
from Xlib.display import Display
from Xlib.error import ConnectionClosedError, DisplayError, XError
from Xlib.ext import shape

from cellwright_kernel.boxes import Box
from cellwright_kernel.hung_up import has_hung_up
from cellwright_kernel.secrets.errors import SecretError

_GREY: Final = 0x808080
_MARGIN: Final = 2
"""Pixels around a field; programs tell its box without its border."""


class Covers:
    """The covers of one display. Its connection stays open: without it they would be gone.

    Args:
        name: The display's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._display: Display | None = None
        self._refused: list[Any] = []

    def put(self, number: int, box: Box | None) -> None:
        """Cover a box of the screen in the window of this number, all of it without one; returns once it is there.

        Raises:
            SecretError: it could not be.
        """
        try:
            if self._display is not None and has_hung_up(self._display):  # the display was started again
                self.close()
            self._put(number, box)
        except (XError, DisplayError, ConnectionClosedError, OSError) as error:
            self.close()
            raise SecretError(f"The field could not be covered ({type(error).__name__}). Nothing was typed.") from None

    def close(self) -> None:
        """Take them all away; safe to call twice."""
        display, self._display = self._display, None
        if display is not None:
            with suppress(ConnectionClosedError, OSError):
                display.close()

    def _put(self, number: int, box: Box | None) -> None:
        display = self._connected()
        over = display.create_resource_object("window", number)
        size = over.get_geometry()
        left, top, width, height = 0, 0, 8192, 8192  # also when the window grows
        if box is not None:
            place = over.translate_coords(display.screen().root, 0, 0)
            left, top = box[0] + place.x - _MARGIN, box[1] + place.y - _MARGIN
            width, height = box[2] + 2 * _MARGIN, box[3] + 2 * _MARGIN
        self._refused.clear()
        cover = over.create_window(
            *(left, top, max(1, width), max(1, height), 0, size.depth),
            X.InputOutput,
            X.CopyFromParent,
            background_pixel=_GREY,
            event_mask=0,
        )
        cover.shape_rectangles(shape.SO.Set, shape.SK.Input, X.Unsorted, 0, 0, [])
        cover.map()
        cover.configure(stack_mode=X.Above)
        display.sync()
        if self._refused:
            raise SecretError("The field could not be covered. Nothing was typed.")

    def _connected(self) -> Display:
        if self._display is None:
            self._display = Display(self._name)
            self._display.set_error_handler(lambda error, _: self._refused.append(error))
        return self._display
