"""Types a text into the field that has the keyboard, and sees to it that no picture shows it there.

Flows in: a text. Flows out: key events. Decided here: what has the keyboard, asked of X and, where that is the browser, of its
pages; that nothing is typed where no field can be told or covered, or after another window has got the keyboard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from cellwright_kernel.boxes import Box, overlap
from cellwright_kernel.python.focus import find_reader
from cellwright_kernel.python.keyboard import Keyboard
from cellwright_kernel.python.pointer import Pointer
from cellwright_kernel.python.x_connection import Connection
from cellwright_kernel.secrets.covers import Covers
from cellwright_kernel.secrets.errors import SecretError
from cellwright_kernel.secrets.page_field import PageField, page_field
from cellwright_kernel.secrets.top_window import TopWindow, top_window_with_keyboard

if TYPE_CHECKING:
    from cellwright_kernel.ui.elements import Element
    from cellwright_kernel.ui.programs import Programs

_FOCUS_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.05
_NOBODY: Final = "No field has the keyboard: no window has the focus. Nothing was typed. Click into the field first."


class Desk(Protocol):
    """What is typed on."""

    @property
    def display_name(self) -> str:
        """Such as `:7`."""

    @property
    def browser_pid(self) -> int | None:
        """Of Chromium's first process; None where there is no browser."""

    @property
    def devtools_url(self) -> str:
        """Of the browser's DevTools, such as `ws://127.0.0.1:9222/devtools/browser/...`."""

    @property
    def bus_address(self) -> str | None:
        """Of the bus on which programs say what their windows show."""


class Field(Protocol):
    """What has the keyboard, while it is typed into."""

    @property
    def url(self) -> str | None:
        """Where the page or frame is from; None for what is no page's, or one without a host."""

    async def type(self, text: str) -> None:
        """Cover it and type.

        Raises:
            SecretError: something else has the keyboard now, or it could not be covered.
        """


class Typist:
    """Types on one desktop.

    Args:
        desk: The desktop.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._connection: Connection | None = None
        self._keyboard: Keyboard | None = None
        self._covers: Covers | None = None
        self._programs: Programs | None = None

    async def close(self) -> None:
        """Give the connections back; safe to call twice."""
        if self._covers is not None:
            await asyncio.to_thread(self._covers.close)
        if self._connection is not None:
            await asyncio.to_thread(self._connection.close)

    @asynccontextmanager
    async def field(self) -> AsyncIterator[Field]:
        """Give what has the keyboard, for the block.

        Raises:
            SecretError: nothing has, or it cannot be told what.
        """
        window = await self._window()
        if window.pid and window.pid == self._desk.browser_pid:
            async with page_field(self._desk.devtools_url, self.tap) as found:
                yield _InPage(found, self, window)
        else:
            yield _InProgram(await self._box_in(window), self, window)

    async def tap(self) -> None:
        """Press a key that types nothing; it is Shift, which every capital letter presses as well."""
        await asyncio.to_thread(self._keys().press, "shift")

    async def write(self, text: str, window: TopWindow) -> None:
        """Type, if a window still has the keyboard."""
        await self._see_keyboard_in(window)
        await asyncio.to_thread(self._keys().write, text, 0.0, lambda: None)

    async def cover(self, window: TopWindow, box: Box | None) -> None:
        """Cover a box of the screen in a window, all of the window without one, if it still has the keyboard."""
        await self._see_keyboard_in(window)
        if self._covers is None:
            self._covers = Covers(self._desk.display_name)
        await asyncio.to_thread(self._covers.put, window.number, box)

    async def _see_keyboard_in(self, window: TopWindow) -> None:
        if await asyncio.to_thread(self._top_window) != window:
            raise SecretError(
                "Another window has got the keyboard meanwhile, or this one was moved. Nothing was typed. Click into the field "
                "again."
            )

    async def _window(self) -> TopWindow:
        end = asyncio.get_running_loop().time() + _FOCUS_S
        before = None
        while True:  # a click moves the focus within 5 ms
            window = await asyncio.to_thread(self._top_window)
            if window is not None and window == before:
                return window
            before = window
            if asyncio.get_running_loop().time() > end:
                raise SecretError(_NOBODY)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _top_window(self) -> TopWindow | None:
        connection = self._connected()
        with connection.use() as display:
            return top_window_with_keyboard(display) if find_reader(display) is not None else None

    async def _box_in(self, window: TopWindow) -> Box | None:
        """Return where the focused field of a program is; None when it does not tell, or tells of two."""
        from cellwright_kernel.ui.programs import Programs  # noqa: PLC0415 - needs dbus-fast, and is seldom needed

        if self._programs is None:
            self._programs = Programs(self._desk.bus_address)
        said = await self._programs.ask()
        focused = [_focused(one.element) for one in said.windows if one.pid == window.pid]
        boxes = [seen for box in focused if (seen := overlap(box, window.box)) is not None]
        return boxes[0] if len(boxes) == 1 else None

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._desk.display_name)
        return self._connection

    def _keys(self) -> Keyboard:
        if self._keyboard is None:
            connection = self._connected()
            self._keyboard = Keyboard(connection, Pointer(connection))
        return self._keyboard


@dataclass
class _InPage:
    found: PageField
    typist: Typist
    window: TopWindow

    @property
    def url(self) -> str | None:
        return self.found.url

    async def type(self, text: str) -> None:
        await self.found.cover()
        if not await self.found.still_has_keyboard():
            raise SecretError(
                "Another field has got the keyboard meanwhile. Nothing was typed. Click into the field again."
            )
        await self.typist.write(text, self.window)


@dataclass
class _InProgram:
    box: Box | None
    typist: Typist
    window: TopWindow
    url: str | None = None

    async def type(self, text: str) -> None:
        await self.typist.cover(self.window, self.box)
        await self.typist.write(text, self.window)


_FIELDS: Final = frozenset({"textbox", "combobox", "spinbutton", "searchbox"})


def _focused(element: Element) -> Box | None:
    for child in element.children:
        if (found := _focused(child)) is not None:
            return found
    return element.box if "focused" in element.states and element.role in _FIELDS else None
