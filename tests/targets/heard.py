"""A window that notes what the X server sends it: keys, buttons with the modifiers of the moment, and where the pointer went.

First argument: the file for the notes, written when another program sends a client message, whose number is their first line.
The window has the left half of the desktop, without a frame. Moves that follow each other are one note, with the last place; one
to where the pointer is already, such as XTEST makes, is none.
"""

import sys
from pathlib import Path

from Xlib import XK, X
from Xlib.display import Display

XK.load_keysym_group("xf86")
NAMES = {value: name[3:] for name, value in vars(XK).items() if name.startswith("XK_")}
MODIFIERS = {X.ShiftMask: "shift", X.ControlMask: "ctrl", X.Mod1Mask: "alt", X.Mod4Mask: "win"}

target = Path(sys.argv[1])
display = Display()
display.set_error_handler(lambda *_: None)
kinds = (
    X.KeyPressMask
    | X.KeyReleaseMask
    | X.ButtonPressMask
    | X.ButtonReleaseMask
    | X.PointerMotionMask
    | X.FocusChangeMask
)
window = display.screen().root.create_window(0, 0, 720, 1000, 0, X.CopyFromParent, event_mask=kinds)
window.set_wm_name("heard")
window.change_property(
    display.intern_atom("_MOTIF_WM_HINTS"), display.intern_atom("_MOTIF_WM_HINTS"), 32, [2, 0, 0, 0, 0]
)
window.set_wm_normal_hints(flags=1, x=0, y=0)
window.map()
display.flush()
notes: list[str] = []
at = (-1, -1)


def key(event) -> str:
    """Name a key by its keysym, with Shift applied."""
    place = event.state & X.ShiftMask and 1
    keysym = display.keycode_to_keysym(event.detail, place) or display.keycode_to_keysym(event.detail, 0)
    return NAMES.get(keysym, f"U+{keysym & 0xFFFFFF:04X}")


def held(event) -> str:
    """Name the modifiers that were down before the event."""
    return "".join(f" {name}" for mask, name in MODIFIERS.items() if event.state & mask)


while True:
    event = display.next_event()
    if event.type in (X.KeyPress, X.KeyRelease):
        notes.append(f"{'key' if event.type == X.KeyPress else 'key up'} {key(event)}{held(event)}")
    elif event.type in (X.ButtonPress, X.ButtonRelease):
        what = "down" if event.type == X.ButtonPress else "up"
        notes.append(f"{what} {event.detail} at {event.root_x},{event.root_y}{held(event)}")
    elif event.type == X.MotionNotify and (event.root_x, event.root_y) != at:
        at = (event.root_x, event.root_y)
        if notes and notes[-1].startswith("move"):
            notes.pop()
        notes.append(f"move to {event.root_x},{event.root_y}")
    elif event.type == X.MappingNotify:
        display.refresh_keyboard_mapping(event)
    elif event.type == X.ClientMessage and event.client_type == display.intern_atom("WRITE_DOWN"):
        new = target.with_suffix(".new")
        new.write_text("\n".join([str(event.data[1][0]), *notes]))
        new.replace(target)
        notes.clear()
