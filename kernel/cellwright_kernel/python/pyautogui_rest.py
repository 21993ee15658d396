"""PyAutoGUI's functions that neither type nor point: windows, message boxes, pixels, its mini-language.

Flows in: the imported module `pyautogui`. Flows out: the same module, where they do what its documentation says.
Decided here: what a function says that PyAutoGUI has on Windows alone.
"""
# ruff: noqa: N803 - the parameters are named as PyAutoGUI documents them

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NoReturn

from cellwright_kernel.python.message_box import NAMES, in_own_process

_OF_WINDOWS: Final = (
    "Window",
    "getActiveWindow",
    "getActiveWindowTitle",
    "getWindowsAt",
    "getWindowsWithTitle",
    "getAllWindows",
    "getAllTitles",
    "locateOnWindow",
)


def replace_rest(module: Any) -> None:
    """Replace what does not do what it says, in the imported module `pyautogui`."""
    for name in _OF_WINDOWS:
        setattr(module, name, _refusal(name, module.PyAutoGUIException))
    for name in NAMES:
        setattr(module, name, in_own_process(getattr(module, name), name))
    module.pixel = module.pyscreeze.pixel = _checking_place(module, module.pyscreeze.pixel)
    module._getQuotedStringToken = _keeping_text(module._getQuotedStringToken)
    module.run = _restoring_pause(module, module.run)


def _refusal(name: str, error: type[Exception]) -> Callable[..., NoReturn]:
    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise error(
            f"pyautogui.{name} is there on Windows only, as PyAutoGUI documents it. Nothing was done. Look at the screen for "
            "a window, and click it to have it in front; screen.find_text('...') finds its title."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "There on Windows only."
    return refuse


def _checking_place(module: Any, pixel: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(pixel)
    def checked(x: Any, y: Any) -> Any:
        if not isinstance(x, tuple | list) and not module.onScreen(x, y):
            width, height = module.size()
            raise ValueError(f"({x}, {y}) is outside the desktop, which is {width}x{height} pixels. No pixel was read.")
        return pixel(x, y)

    return checked


class _Token(str):
    """A quoted text of the mini-language.

    PyAutoGUI cuts off what it takes for the quotes and strips the rest: with a blank before the quote it kept that, and
    a text lost the blanks that it begins with.
    """

    __slots__ = ()

    def __getitem__(self, _part: Any) -> str:
        return _Text(self.lstrip()[1:-1])


class _Text(str):
    __slots__ = ()

    def lstrip(self, _characters: str | None = None, /) -> str:
        return str(self)


def _keeping_text(token: Callable[[str], str]) -> Callable[[str], str]:
    return lambda command: _Token(token(command))


def _restoring_pause(module: Any, run: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(run)
    def restored(commandStr: str, _ssCount: list[int] | None = None) -> None:
        pause = module.PAUSE
        try:
            run(commandStr, _ssCount)
        finally:
            module.PAUSE = pause

    return restored
