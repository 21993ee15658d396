"""`pyautogui` as the Python kernel offers it: its documented functions, doing what they say on this desktop.

Contract: `prepare(":1")` imports PyAutoGUI, replaces what is wrong in its X11 side and returns the module. It may be
called from any thread and any number of times; the first call does the work (about 0.1 s), the others return the same
module. `prepare_on_import(":1")` costs nothing and has the same done when a cell first imports `pyautogui`. Call one of
them before any other code imports it. `release_all()` lets go of every held key and button; the kernel calls it after
each cell that did not end `ok`. Nothing here needs the kernel or its host.

Flows in: the display's name. Flows out: the module `pyautogui`.
Decided here: when it is imported, that importing it cannot end the process, and that it has no X connection of its own.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

from cellwright_kernel.python import keyboard
from cellwright_kernel.python.x_connection import Connection, DisplayLost

if TYPE_CHECKING:
    from cellwright_kernel.screen.pictures import Pictures

_lock = threading.RLock()
_connection: Connection | None = None
_pictures: Pictures | None = None


def prepare(display: str) -> ModuleType:
    """Return PyAutoGUI, ready for this display (such as `:1`).

    Raises:
        DisplayLost: the display does not answer.
        RuntimeError: it was prepared for another display, or imported before.
    """
    with _lock:
        prepare_on_import(display)
        return importlib.import_module("pyautogui")


def prepare_on_import(display: str) -> None:
    """Have PyAutoGUI made ready for this display when it is first imported; raises like `prepare`."""
    global _connection  # noqa: PLW0603
    with _lock:
        if _connection is not None:
            if _connection.name != display:
                raise RuntimeError(
                    f"pyautogui is made ready for {_connection.name}; it cannot be for {display} as well."
                )
            return
        if "pyautogui" in sys.modules:
            raise RuntimeError("pyautogui was imported before it was made ready. Start a new kernel.")
        _connection = Connection(display)
        sys.meta_path.insert(0, _Finder(_connection))


def pictures() -> Pictures:
    """Return what takes pictures of the display that `prepare_on_import` was told of."""
    global _pictures  # noqa: PLW0603
    with _lock:
        if _connection is None:
            raise DisplayLost("There is no desktop in this session.")
        if _pictures is None:
            from cellwright_kernel.screen.pictures import Pictures  # it imports Pillow

            _pictures = Pictures(_connection)
        return _pictures


def release_all() -> None:
    """Let go of every key and button that is down on the display; does nothing before `prepare` or without a display.

    One that has just kept silent is not waited for: whoever ended the cell lets go of them.
    """
    if _connection is not None and not _connection.is_silent:
        with suppress(DisplayLost):
            keyboard.release_all(_connection)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `pyautogui` where Python does, and has it made ready once it is loaded."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "pyautogui":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._connection)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, original: importlib.abc.Loader, connection: Connection) -> None:
        self._original = original
        self._connection = connection

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._original.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        from cellwright_kernel.python.pyautogui_calls import replace_calls  # it imports Pillow

        with self._connection.use():
            pass  # a display that does not answer is said here, in our words
        os.environ["DISPLAY"] = self._connection.name
        with _without_mouseinfo():
            self._original.exec_module(module)
        module.mouseInfo = _mouse_info  # type: ignore[attr-defined]
        replace_calls(module, self._connection, pictures())


@contextmanager
def _without_mouseinfo() -> Iterator[None]:
    # mouseinfo takes 40 ms of PyAutoGUI's import, opens an X connection, and ends the process where tkinter is missing.
    if "mouseinfo" in sys.modules:
        yield
        return
    sys.modules["mouseinfo"] = ModuleType("mouseinfo")
    try:
        yield
    finally:
        del sys.modules["mouseinfo"]


def _mouse_info() -> None:
    """Open the MouseInfo window; returns when a person closes it."""
    try:
        mouseinfo = importlib.import_module("mouseinfo")
    except SystemExit as refused:
        raise RuntimeError(f"MouseInfo cannot be opened here: {refused}") from None
    mouseinfo.MouseInfoWindow()
