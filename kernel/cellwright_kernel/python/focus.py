"""The program that the keyboard's keys go to, and whether it has read all of them.

Flows in: the display. Flows out: a `Reader`, the focused window with the means to ask its program; yes or no.
Decided here: how a program is asked (a ping where it answers pings, as Tk does without saying so; else whether it is idle),
and how long a click is given to move the focus before keys follow it.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from Xlib import X, Xatom, error
from Xlib.display import Display
from Xlib.ext import res
from Xlib.protocol import event
from Xlib.xobject.drawable import Window

from cellwright_kernel.python.idle import Idleness
from cellwright_kernel.python.x_connection import Connection

_CLICK_FOCUS_S = 0.3
"""A window manager moves the focus within 5 ms of a click; a window that refuses focus costs this much once."""

_ping_numbers = itertools.count(1)


@dataclass(frozen=True)
class Reader:
    """The window that has the keyboard focus."""

    window: Window
    answers_pings: bool
    """Whether the program of `window`, the one to ask, answers _NET_WM_PING."""
    pid: int | None
    """Process of a program that does not; None when the server does not know it."""


def find_reader(display: Display) -> Reader | None:
    """Return who reads the keys now; None when they would go to nobody."""
    try:
        return _find_reader(display)
    except error.BadWindow:  # it was closed between two questions
        return None


def of_same_program(display: Display, one: Reader, other: Reader) -> bool:
    """Whether both windows are one program's, which reads the keys of both in turn."""
    return _same_program(display, one.window, other.window)


def has_caught_up(connection: Connection, display: Display, reader: Reader, limit_s: float) -> bool:
    """Wait until the reader's program has read every key sent so far; False when `limit_s` seconds did not do.

    What was sent to a window that is gone needs no reading any more.
    """
    if reader.answers_pings:
        return _has_answered(connection, display, reader.window, limit_s)
    if reader.pid is None:
        return False
    idleness = Idleness(reader.pid)

    def is_idle() -> bool:
        display.sync()
        return idleness.look()

    return connection.wait_until(display, is_idle, limit_s)


def pinged_client(display: Display, clicked: Window) -> Reader | None:
    """Return whose window was clicked, if its program answers pings; else None."""
    try:
        client = _client_within(clicked, display.intern_atom("WM_STATE"))
        answers = client is not None and display.intern_atom("_NET_WM_PING") in (client.get_wm_protocols() or [])
    except error.BadWindow:  # the click closed it
        return None
    return Reader(client, answers_pings=True, pid=None) if client is not None and answers else None


def await_focus_of_click(connection: Connection, display: Display, clicked: Window) -> None:
    """Wait until the window that was clicked has the focus, where it is one that the window manager manages."""
    wm_state, active = display.intern_atom("WM_STATE"), display.intern_atom("_NET_ACTIVE_WINDOW")
    try:
        client = _client_within(clicked, wm_state)
    except error.BadWindow:  # the click closed it
        return
    if client is None:
        return
    root = display.screen().root

    def has_focus() -> bool:
        found = root.get_full_property(active, X.AnyPropertyType)
        if found is None or client.id not in found.value:
            return False
        focus = display.get_input_focus().focus
        return isinstance(focus, Window) and _same_program(display, focus, client)

    connection.wait_until(display, has_focus, _CLICK_FOCUS_S)


def _find_reader(display: Display) -> Reader | None:
    focus = display.get_input_focus().focus
    if focus == X.PointerRoot:
        focus = display.screen().root.query_pointer().child
    root = display.screen().root
    if not isinstance(focus, Window) or focus == root or _belongs_to_window_manager(display, focus):
        return None
    ping = display.intern_atom("_NET_WM_PING")
    asked: list[Window] = []  # with protocols, the inmost first
    window: Any = focus
    while isinstance(window, Window) and window != root:
        protocols = window.get_wm_protocols() or []
        if ping in protocols:
            return Reader(window, answers_pings=True, pid=None)
        asked += [window] if protocols else []
        window = window.query_tree().parent
    if _is_tk(display, focus):
        return Reader((asked or [focus])[0], answers_pings=True, pid=None)
    return Reader(focus, answers_pings=False, pid=_pid(display, focus))


def _is_tk(display: Display, window: Window) -> bool:
    # Every Tk program writes the number of a window of its own there, and a name, for Tk's `send`. One that was killed stays
    # there, and its numbers go to the next program: so its window is looked at. A program of Xt's takes a ping for the wish
    # that it close.
    registry = display.screen().root.get_full_property(display.intern_atom("InterpRegistry"), Xatom.STRING)
    for entry in bytes(registry.value).split(b"\0") if registry else ():
        with suppress(ValueError, error.BadWindow):
            number = int(entry.partition(b" ")[0], 16)
            if _program(display, number) == _program(display, window.id):
                its_own: Any = display.create_resource_object("window", number)
                if its_own.get_full_property(display.intern_atom("TK_APPLICATION"), X.AnyPropertyType):
                    return True
    return False


def _has_answered(connection: Connection, display: Display, window: Window, limit_s: float) -> bool:
    root = display.screen().root
    protocols, ping = display.intern_atom("WM_PROTOCOLS"), display.intern_atom("_NET_WM_PING")
    number = next(_ping_numbers) & 0x7FFFFFFF
    # The answer goes to the root window; it is listened to only now, so that nothing piles up between calls.
    root.change_attributes(event_mask=X.SubstructureNotifyMask)
    connection.messages.clear()
    window.send_event(
        event.ClientMessage(window=window, client_type=protocols, data=(32, [ping, number, window.id, 0, 0]))
    )
    display.flush()

    def answered() -> bool:
        came = any(m.client_type == protocols and list(m.data[1])[:2] == [ping, number] for m in connection.messages)
        return came or _is_gone(window)

    try:
        return connection.wait_until(display, answered, limit_s)
    finally:
        root.change_attributes(event_mask=X.NoEventMask)
        connection.messages.clear()


def _is_gone(window: Window) -> bool:
    try:
        window.get_geometry()
    except error.BadDrawable:
        return True
    return False


def _belongs_to_window_manager(display: Display, window: Window) -> bool:
    check = display.screen().root.get_full_property(display.intern_atom("_NET_SUPPORTING_WM_CHECK"), X.AnyPropertyType)
    return bool(check and len(check.value) and _program(display, window.id) == _program(display, check.value[0]))


def _same_program(display: Display, one: Window, other: Window) -> bool:
    return _program(display, one.id) == _program(display, other.id)


def _program(display: Display, resource: int) -> int:
    return int(resource) & ~int(display.display.info.resource_id_mask)


def _client_within(window: Window, wm_state: int) -> Window | None:
    # A frame holds its client one or two levels down.
    layer = [window]
    for _ in range(3):
        for candidate in layer:
            if candidate.get_full_property(wm_state, X.AnyPropertyType):
                return candidate
        layer = [child for parent in layer for child in parent.query_tree().children]
    return None


def _pid(display: Display, window: Window) -> int | None:
    specs = [{"client": window.id, "mask": res.LocalClientPIDMask}]
    for found in display.res_query_client_ids(specs).ids:
        if found.spec.mask == res.LocalClientPIDMask and found.value:
            return int(found.value[0])
    return None
