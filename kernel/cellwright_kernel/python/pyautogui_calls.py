"""PyAutoGUI's documented calls, each done by our keyboard, pointer and screen.

Flows in: the imported module `pyautogui` and the connection to the display. Flows out: the same module, with what did
not do what it says replaced; signatures and docstrings stay as they are documented. Decided here: which call is
replaced, and what the fail-safe says and does. How a text is typed, `keyboard.py` decides.
"""
# ruff: noqa: N803 - the parameters are named as PyAutoGUI documents them

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from cellwright_kernel.python.key_names import keysym_of
from cellwright_kernel.python.keyboard import Keyboard, release_all
from cellwright_kernel.python.pointer import Pointer
from cellwright_kernel.python.pyautogui_rest import replace_rest
from cellwright_kernel.python.x_connection import Connection
from cellwright_kernel.screen.pictures import Pictures
from cellwright_kernel.secrets.secrets import refuse_placeholder

_BUTTONS: dict[str | int, int] = {"left": 1, "middle": 2, "right": 3, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7}
_NAMES: dict[str | int, str | int] = {1: "left", 2: "middle", 3: "right", "primary": "left", "secondary": "right"}
_PAUSE_S = 0.01
"""Instead of PyAutoGUI's 0.1 s, which is there for a person who wants to step in."""
_DRAG_S = 0.2
"""A drag takes that long at least: of those that jumped from one place to the other, pages took 8 in 20 for a drop."""


def replace_calls(module: Any, connection: Connection, pictures: Pictures) -> None:
    """Replace, in the imported module `pyautogui`, what does not do what its documentation says on X."""
    pointer = Pointer(connection)
    keyboard = Keyboard(connection, pointer)
    calls = _Calls(module, connection, pointer, keyboard, pictures)
    _replace_platform(module, pointer, keyboard)
    documented: dict[str, Callable[..., Any]] = {
        "press": calls.press,
        "typewrite": calls.typewrite,
        "hotkey": calls.hotkey,
        "moveRel": calls.moving_by(module.moveRel),
        "dragTo": calls.dragging(module.dragTo),
        "dragRel": calls.dragging(module.dragRel),
    }
    for name, call in documented.items():
        _put(module, name, module._genericPyAutoGUIChecks(call))
    _put(module, "hold", contextmanager(module._genericPyAutoGUIChecks(calls.hold)))
    module.write, module.shortcut = module.typewrite, module.hotkey
    module.move, module.drag = module.moveRel, module.dragRel
    _put(module, "failSafeCheck", calls.fail_safe_check)
    _put(module, "isValidKey", is_valid_key)
    module._normalizeButton = normalize_button
    module._mouseMoveDrag = calls.checking_target(module._mouseMoveDrag)
    module.PAUSE = _PAUSE_S
    module.KEY_NAMES[:] = [name for name in module.KEY_NAMES if is_valid_key(name)]
    _replace_screen(module, calls)
    replace_rest(module)


def is_valid_key(key: str) -> bool:
    """Return whether the key can be pressed here."""
    try:
        keysym_of(key)
    except (TypeError, ValueError):
        return False
    return True


def normalize_button(button: str | int) -> str | int:
    """Return `left`, `middle`, `right`, or 4 to 7 for the wheel; PyAutoGUI's own stumbles over the numbers it documents.

    Raises:
        ValueError: there is no such button.
    """
    named = button.lower() if isinstance(button, str) else button
    found = _NAMES.get(named, named)
    if found not in _BUTTONS:
        raise ValueError(
            f"There is no mouse button {button!r}; nothing was pressed. There are 'left', 'middle', 'right', 'primary', "
            "'secondary' and the numbers 1 to 7."
        )
    return found


class _Calls:
    """The documented calls as methods, so that they share the parts they need."""

    def __init__(
        self, module: Any, connection: Connection, pointer: Pointer, keyboard: Keyboard, pictures: Pictures
    ) -> None:
        self._module = module
        self._connection = connection
        self._pictures = pictures
        self._pointer = pointer
        self._keyboard = keyboard

    def typewrite(
        self, message: str | Sequence[str], interval: float = 0.0, logScreenshot: Any = None, _pause: bool = True
    ) -> None:
        if not isinstance(message, str | list | tuple):
            raise TypeError(
                f"A text to type is a str, or a list of key names, not {type(message).__name__}. Nothing was typed."
            )
        self._log(logScreenshot, "write", message if isinstance(message, str) else ",".join(message))
        if isinstance(message, str):
            refuse_placeholder(message)
            self._keyboard.write(message, float(interval), self._module.failSafeCheck)
        else:
            self._press_all(message, 1, float(interval), after_each_key=True)

    def press(
        self,
        keys: str | Iterable[str],
        presses: int = 1,
        interval: float = 0.0,
        logScreenshot: Any = None,
        _pause: bool = True,
    ) -> None:
        keys = [keys] if isinstance(keys, str) else list(keys)
        self._log(logScreenshot, "press", ",".join(keys))
        self._press_all(keys, presses, float(interval), after_each_key=False)

    def hotkey(self, *args: Any, **kwargs: Any) -> None:
        keys = args[0] if args and not isinstance(args[0], str) else args
        interval = float(kwargs.get("interval", 0.0))
        self._log(kwargs.get("logScreenshot"), "hotkey", ",".join(keys))
        with self._keyboard.held([_named(key) for key in keys], interval):
            pass
        self._keyboard.await_reader()

    def hold(self, keys: str | Iterable[str], logScreenshot: Any = None, _pause: bool = True) -> Iterator[None]:
        keys = [keys] if isinstance(keys, str) else list(keys)
        self._log(logScreenshot, "hold", ",".join(keys))
        with self._keyboard.held([_named(key) for key in keys]):
            yield

    def fail_safe_check(self) -> None:
        if not self._module.FAILSAFE:
            return
        corner = self._pointer.was_moved_into(self._module.FAILSAFE_POINTS)
        if corner is None:
            return
        release_all(self._connection)
        moved_to = self._pointer.leave_corner()
        raise self._module.FailSafeException(
            f"Fail-safe: the pointer was found in the corner {corner} of the desktop, and no call of this kernel put it "
            "there; usually a person wants the automation to stop, or another program moved it. The call was stopped, held "
            f"keys and buttons were let go, and the pointer was moved to {moved_to}; variables and windows are kept. "
            "Look at the screen before going on."
        )

    def checking_target(self, original: Callable[..., None]) -> Callable[..., None]:
        """Refuse a move or drag to a place outside the desktop before anything is done."""

        @functools.wraps(original)
        def checked(kind: str, x: Any, y: Any, dx: Any, dy: Any, *args: Any, **kwargs: Any) -> None:
            at = self._pointer.position()
            target = [at[i] if given is None else int(given) for i, given in enumerate((x, y))]
            self._pointer.check(target[0] + int(dx or 0), target[1] + int(dy or 0))
            original(kind, x, y, dx, dy, *args, **kwargs)

        return checked

    def moving_by(self, original: Callable[..., None]) -> Callable[..., None]:
        """Take an offset that is not given for 0, as documented; PyAutoGUI takes the pointer's own coordinate for it."""
        move = original.__wrapped__  # type: ignore[attr-defined]  # as in `dragging`

        @functools.wraps(move)
        def moved(xOffset: Any = None, yOffset: Any = None, *args: Any, **kwargs: Any) -> None:
            is_pair = isinstance(xOffset, Sequence)
            move(xOffset if is_pair else xOffset or 0, yOffset if is_pair else yOffset or 0, *args, **kwargs)

        return moved

    def dragging(self, original: Callable[..., None]) -> Callable[..., None]:
        """Have a drag arrive, on a path and not in a jump; and release the button where it ends in an error."""
        drag = original.__wrapped__  # type: ignore[attr-defined]  # without its fail-safe check, which is put around ours
        signature = inspect.signature(drag)

        @functools.wraps(drag)
        def dragged(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            self._pointer.is_dragging = bool(given.arguments["mouseDownUp"])
            if self._pointer.is_dragging:
                given.arguments["duration"] = max(given.arguments["duration"], _DRAG_S)
            try:
                drag(*given.args, **given.kwargs)
            except BaseException:
                self._pointer.release_buttons()
                raise
            finally:
                self._pointer.is_dragging = False

        return dragged

    def screenshot(
        self,
        imageFilename: str | Path | None = None,
        region: Sequence[int] | None = None,
        allScreens: bool = False,  # noqa: ARG002 - there is one screen
    ) -> Image.Image:
        """Return a picture of the desktop, or of `region` = (left, top, width, height); save it where a file is named.

        Raises:
            ValueError: the region is not within the desktop.
        """
        picture = self._pictures.take(region)
        if imageFilename is not None:
            picture.save(imageFilename)
        return picture

    def _press_all(self, keys: Iterable[str], presses: int, interval_s: float, *, after_each_key: bool) -> None:
        names = [_named(key) for key in keys]
        for name in names:
            keysym_of(name)  # a wrong name is found before any key is pressed
        for _ in range(presses):
            for name in names:
                self._module.failSafeCheck()
                self._keyboard.press(name)
                if after_each_key:
                    time.sleep(interval_s)
            if not after_each_key:
                time.sleep(interval_s)

    def _log(self, wanted: Any, call: str, arguments: str) -> None:
        self._module._logScreenshot(wanted, call, arguments, folder=".")


def _named(key: str) -> str:
    return key.lower() if isinstance(key, str) and len(key) > 1 else key


def _put(module: Any, name: str, call: Any) -> None:
    original = getattr(module, name)
    if not hasattr(call, "__self__"):  # a bound method keeps its own docstring
        call.__doc__, call.__name__, call.__qualname__ = original.__doc__, name, name
    setattr(module, name, call)


def _replace_platform(module: Any, pointer: Pointer, keyboard: Keyboard) -> None:
    platform = module.platformModule

    def move(x: int, y: int) -> None:
        pointer.move(x, y)

    def click(x: int, y: int, button: str | int, times: int = 1) -> None:
        pointer.check(x, y)
        pointer.move(x, y)
        pointer.click(_BUTTONS[button], times)

    def button_down(x: int, y: int, button: str | int) -> None:
        pointer.move(x, y)
        pointer.button(_BUTTONS[button], down=True)

    def button_up(x: int, y: int, button: str | int) -> None:
        pointer.move(x, y)
        pointer.button(_BUTTONS[button], down=False)

    def wheel(forward: int, back: int) -> Callable[..., None]:
        def turn(clicks: float, x: int, y: int) -> None:
            if int(clicks):
                click(x, y, forward if clicks > 0 else back, abs(int(clicks)))

        return turn

    platform._display.close()  # the process has one connection, and it is ours
    platform._display = None
    platform._position, platform._size, platform._moveTo, platform._click = pointer.position, pointer.size, move, click
    platform._mouseDown, platform._mouseUp = button_down, button_up
    platform._vscroll = platform._scroll = wheel(4, 5)
    platform._hscroll = wheel(7, 6)
    platform._keyDown, platform._keyUp = keyboard.down, keyboard.up
    platform.keyboardMapping = {name: keysym_of(name) for name in module.KEY_NAMES if is_valid_key(name)}


def _replace_screen(module: Any, calls: _Calls) -> None:
    pyscreeze = module.pyscreeze
    module.screenshot = pyscreeze.screenshot = pyscreeze._screenshot_linux = calls.screenshot
    for name in ("locate", "locateAll", "locateAllOnScreen", "locateCenterOnScreen", "locateOnScreen"):
        _put(module, name, _saying_what_is_missing(module, getattr(pyscreeze, name)))


def _saying_what_is_missing(module: Any, search: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def said(image: Any) -> Iterator[None]:
        try:
            yield
        except module.pyscreeze.ImageNotFoundException as missing:
            raise module.ImageNotFoundException(
                f"The picture {image!r} is not on the screen ({str(missing) or 'no place matches it exactly'})."
            ) from None
        except NotImplementedError as missing:
            raise NotImplementedError(
                f"{missing} It is not. Nothing was searched. Leave confidence= out; a text is found with screen.find_text()."
            ) from None

    @functools.wraps(search)
    def found(image: Any, *args: Any, **kwargs: Any) -> Any:
        with said(image):
            places = search(image, *args, **kwargs)
        return one_by_one(image, places) if isinstance(places, Iterator) else places

    def one_by_one(image: Any, places: Iterator[Any]) -> Iterator[Any]:
        with said(image):  # `locateAll` and its like search when their places are asked for
            yield from places

    return found
