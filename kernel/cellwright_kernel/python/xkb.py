"""The three requests of the X keyboard extension that are needed; python-xlib has none.

Flows in: an open display. Flows out: announcements to the other programs; events of our own connection's.
Decided here: nothing. The fields are those of the XKB protocol, version 1.0.
"""

from __future__ import annotations

from Xlib.display import Display
from Xlib.protocol import rq

_CORE_KEYBOARD = 0x100
_NEW_KEYBOARD_OR_MAP = 0x0003


class _UseExtension(rq.ReplyRequest):  # type: ignore[misc]
    _request = rq.Struct(
        rq.Card8("opcode"), rq.Opcode(0), rq.RequestLength(), rq.Card16("wanted_major"), rq.Card16("wanted_minor")
    )
    _reply = rq.Struct(
        rq.ReplyCode(),
        rq.Bool("supported"),
        rq.Card16("sequence_number"),
        rq.ReplyLength(),
        rq.Card16("server_major"),
        rq.Card16("server_minor"),
        rq.Pad(20),
    )


class _SelectEvents(rq.Request):  # type: ignore[misc]
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(1),
        rq.RequestLength(),
        rq.Card16("device"),
        rq.Card16("affect_which"),
        rq.Card16("clear"),
        rq.Card16("select_all"),
        rq.Card16("affect_map"),
        rq.Card16("map"),
    )


class _SetMap(rq.Request):  # type: ignore[misc]
    _request = rq.Struct(
        rq.Card8("opcode"),
        rq.Opcode(9),
        rq.RequestLength(),
        rq.Card16("device"),
        rq.Card16("present"),
        rq.Card16("flags"),
        rq.Card8("min_keycode"),
        rq.Card8("max_keycode"),
        rq.Pad(24),  # first key and number of each part of the map: none
    )


def listen(display: Display) -> int:
    """Have changes of the keyboard mapping announced to this connection; return the type of the events that do so."""
    found = display.query_extension("XKEYBOARD")
    opcode = found.major_opcode
    _UseExtension(display=display.display, opcode=opcode, wanted_major=1, wanted_minor=0)
    which = _NEW_KEYBOARD_OR_MAP
    _SelectEvents(
        display=display.display,
        opcode=opcode,
        device=_CORE_KEYBOARD,
        affect_which=which,
        clear=0,
        select_all=which,
        affect_map=0,
        map=0,
    )
    return int(found.first_event)


def announce_new_keyboard(display: Display) -> None:
    """Tell every program that the keyboard is another one, so that it reads the whole mapping again.

    Chromium does so on no smaller news: it takes no notice of a changed mapping, and goes on with what it read before. The
    one request that makes the server say it is a change of the keycodes' range, so the last one is taken out and put back.
    """
    opcode = display.query_extension("XKEYBOARD").major_opcode
    low, high = display.display.info.min_keycode, display.display.info.max_keycode
    for highest in (high - 1, high):
        _SetMap(
            display=display.display,
            opcode=opcode,
            device=_CORE_KEYBOARD,
            present=0,
            flags=0,
            min_keycode=low,
            max_keycode=highest,
        )
