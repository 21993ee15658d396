"""Keys and pointer buttons that are held on a display: let go.

Flows in: a display. Flows out: how many there were. Decided here: what counts as held is what the server says, whoever
pressed it.
"""

from __future__ import annotations

from Xlib import X
from Xlib import display as xlib
from Xlib.ext import xtest


def let_go(display: str) -> int:
    """Let go of all; return how many."""
    connection = xlib.Display(display)
    try:
        held = connection.query_keymap()
        keys = [code for code in range(8, 256) if held[code // 8] >> (code % 8) & 1]
        mask = connection.screen().root.query_pointer().mask
        buttons = [n for n in range(1, 6) if mask & (X.Button1Mask << (n - 1))]
        for code in keys:
            xtest.fake_input(connection, X.KeyRelease, code)
        for button in buttons:
            xtest.fake_input(connection, X.ButtonRelease, button)
        connection.sync()
        return len(keys) + len(buttons)
    finally:
        connection.close()
