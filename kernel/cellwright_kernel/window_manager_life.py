"""Does the window manager manage windows, and does it answer?

Flows in: an open python-xlib `Display`. Flows out: what it says, or None while it says nothing. Decided here: what is asked; that
no answer is waited for: whoever asks asks again.
"""

from __future__ import annotations

from Xlib import X
from Xlib.display import Display
from Xlib.protocol.event import ClientMessage
from Xlib.xobject.drawable import Window


def window_manager_of(connection: Display) -> int | None:
    """Return the window that a running window manager names on the root, which it does once it manages windows."""
    atom = connection.intern_atom("_NET_SUPPORTING_WM_CHECK")
    found = connection.screen().root.get_full_property(atom, X.AnyPropertyType)
    return int(found.value[0]) if found else None


def frame_extents(connection: Display, window: Window) -> list[int] | None:
    """Ask the window manager how wide it would frame `window`, and return its answer once it is there.

    openbox names itself on the root before it takes requests: of windows mapped right then, every third was never shown.
    """
    found = window.get_full_property(connection.intern_atom("_NET_FRAME_EXTENTS"), X.AnyPropertyType)
    if found:
        return list(found.value)
    kind = connection.intern_atom("_NET_REQUEST_FRAME_EXTENTS")
    request = ClientMessage(window=window, client_type=kind, data=(32, [0] * 5))
    connection.screen().root.send_event(request, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
    return None
