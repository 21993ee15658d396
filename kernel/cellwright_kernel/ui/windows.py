"""The windows that the X server shows, as the window manager lists them.

Flows in: an X connection. Flows out: for each window its title, place, process and state, topmost first. Decided here:
that a window's place is that of its content, without the frame around it; whose it is, as far as its program says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from Xlib import X
from Xlib.display import Display
from Xlib.error import BadDrawable, BadWindow

from cellwright_kernel.boxes import Box
from cellwright_kernel.processes import is_stopped
from cellwright_kernel.ui.elements import clean

_MOST: Final = 200
_TITLE_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Window:
    """A window of some program."""

    title: str
    box: Box
    pid: int
    """0 when its program does not say."""
    program: str
    is_dialog: bool
    is_active: bool
    is_minimized: bool
    is_stopped: bool
    """Its process was stopped by a signal."""


def windows_of(display: Display) -> list[Window]:
    """Return the windows, topmost first; those that vanish meanwhile are left out.

    Raises:
        Exception: Xlib's, when the server is gone.
    """
    root = display.screen().root
    active = _values(display, root, "_NET_ACTIVE_WINDOW")
    listed = _values(display, root, "_NET_CLIENT_LIST_STACKING")[-_MOST:]
    found = []
    for number in reversed(listed):
        try:
            found.append(_window(display, number, is_active=number in active))
        except (BadWindow, BadDrawable):
            continue
    return found


def program_of(pid: int) -> str:
    """Return the name of a process's program; empty when it is gone."""
    try:
        return clean(Path(f"/proc/{pid}/comm").read_text())
    except OSError:
        return ""


def _window(display: Display, number: int, *, is_active: bool) -> Window:
    window = display.create_resource_object("window", number)
    size = window.get_geometry()
    place = window.translate_coords(display.screen().root, 0, 0)
    pid = (_values(display, window, "_NET_WM_PID") or [0])[0]
    kinds = _values(display, window, "_NET_WM_WINDOW_TYPE")
    states = _values(display, window, "_NET_WM_STATE")
    return Window(
        title=_title(display, window),
        box=(-place.x, -place.y, size.width, size.height),
        pid=pid,
        program=program_of(pid) if pid else clean((window.get_wm_class() or ("",))[-1]),
        is_dialog=display.intern_atom("_NET_WM_WINDOW_TYPE_DIALOG") in kinds,
        is_active=is_active,
        is_minimized=display.intern_atom("_NET_WM_STATE_HIDDEN") in states,
        is_stopped=bool(pid) and is_stopped(pid),
    )


def _title(display: Display, window: Any) -> str:
    for name in ("_NET_WM_NAME", "WM_NAME"):
        found = window.get_property(display.intern_atom(name), X.AnyPropertyType, 0, _TITLE_CHARS)
        if found is not None and found.value:
            value = found.value
            return clean(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
    return ""


def _values(display: Display, window: Any, name: str) -> list[int]:
    found = window.get_property(display.intern_atom(name), X.AnyPropertyType, 0, 4096)
    return [int(value) for value in found.value] if found is not None and found.format == 32 else []
