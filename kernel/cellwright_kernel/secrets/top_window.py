"""The program's window that has the keyboard.

Flows in: the display. Flows out: which window, whose it is, and where. Decided here: of a program's windows within each
other, the one that the window manager manages counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from Xlib import X
from Xlib.display import Display
from Xlib.error import BadDrawable, BadWindow
from Xlib.ext import res
from Xlib.xobject.drawable import Window

from cellwright_kernel.boxes import Box


@dataclass(frozen=True)
class TopWindow:
    """A window that the window manager manages, or one without a manager just below the root."""

    number: int
    """Its X id."""
    pid: int
    """0 when it is not known."""
    box: Box
    """Of its content, in pixels of the screen."""


def top_window_with_keyboard(display: Display) -> TopWindow | None:
    """Return it; None when no window has the keyboard."""
    root = display.screen().root
    focus = display.get_input_focus().focus
    if focus == X.PointerRoot:
        focus = root.query_pointer().child
    try:
        window = _managed(display, focus, root)
        return None if window is None else _described(display, window, root)
    except (BadWindow, BadDrawable):  # it was closed between two questions
        return None


def _managed(display: Display, focus: object, root: Window) -> Window | None:
    window, top = focus, None
    wm_state = display.intern_atom("WM_STATE")
    while isinstance(window, Window) and window != root:
        top = window
        if window.get_full_property(wm_state, X.AnyPropertyType):
            return window
        window = window.query_tree().parent
    return top


def _described(display: Display, window: Window, root: Window) -> TopWindow:
    size = window.get_geometry()
    place = window.translate_coords(root, 0, 0)
    return TopWindow(window.id, _pid(display, window), (-place.x, -place.y, size.width, size.height))


def _pid(display: Display, window: Window) -> int:
    """As the server knows it: a program may say anything."""
    specs = [{"client": window.id, "mask": res.LocalClientPIDMask}]
    for found in display.res_query_client_ids(specs).ids:
        if found.spec.mask == res.LocalClientPIDMask and found.value:
            return int(found.value[0])
    return 0
