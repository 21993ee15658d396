"""The watch over a real display: it stays quiet while nothing is drawn, and notices whoever draws."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.waiting import GUARD_S, until
from Xlib import X
from Xlib import display as xlib

from cellwright_kernel import screen_watch, screenshots
from cellwright_kernel.child import Child
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.screen.pictures import Pictures

pytestmark = [pytest.mark.slow]

ANSWER_S = screen_watch._ANSWER_S
_TK = "import tkinter; w = tkinter.Tk(); tkinter.Label(w, text='shown').pack(); w.mainloop()"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is slow to answer, as on a busy machine, counts as changed; here it is to be what was drawn."""
    monkeypatch.setattr(screen_watch, "_ANSWER_S", GUARD_S)


@pytest.fixture
def grabs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One line for each time that the pixels were fetched."""
    fetched: list[str] = []
    take = screenshots._picture

    def counted(pictures: Pictures, known: screenshots.Screenshot | None) -> screenshots.Screenshot:
        fetched.append("the screen")
        return take(pictures, known)

    monkeypatch.setattr(screenshots, "_picture", counted)
    return fetched


async def test_nothing_is_grabbed_while_nothing_is_drawn(desktop: Desktop, grabs: list[str]) -> None:
    assert desktop.changed
    first = await _settled(desktop)
    grabbed = len(grabs)
    assert not desktop.changed
    assert await desktop.screenshot(known=first) is first
    assert await desktop.screenshot(known=first) is first
    assert len(grabs) == grabbed
    await desktop.screenshot()  # whoever knows none gets one
    assert len(grabs) == grabbed + 1


async def test_another_layout_of_the_keyboard_is_no_change_of_the_screen(desktop: Desktop) -> None:
    await _settled(desktop)
    connection = xlib.Display(desktop.display)
    for _ in range(200):  # every client is told of each of them, whether it asked or not
        connection.change_keyboard_mapping(250, [[0x61, 0x41]])
    connection.sync()
    connection.close()
    assert not desktop.changed


@pytest.mark.parametrize("command", [["xterm"], [sys.executable, "-c", _TK]], ids=["xterm", "tk"])
async def test_a_window_that_is_drawn_is_a_change(desktop: Desktop, tmp_path: Path, command: Sequence[str]) -> None:
    first = await _settled(desktop)
    environment = {**os.environ, "DISPLAY": desktop.display}
    child = await Child.start("program", command, environment=environment, folder=tmp_path)
    try:
        await until(lambda: desktop.changed)
        shown = await _settled(desktop)
        assert shown.pixels_sha256 != first.pixels_sha256
    finally:
        await child.stop()
    await until(lambda: desktop.changed)  # that it has gone is one too


async def test_what_is_drawn_in_a_window_within_a_window_is_a_change(desktop: Desktop) -> None:
    connection = xlib.Display(desktop.display)
    root = connection.screen().root
    outer = root.create_window(0, 0, 300, 200, 0, X.CopyFromParent, override_redirect=True, background_pixel=0)
    inner = outer.create_window(10, 10, 100, 100, 0, X.CopyFromParent, background_pixel=0)
    inner.map()
    outer.map()
    connection.sync()
    first = await _settled(desktop)
    for colour in (0xFF0000, 0x00FF00, 0x0000FF):  # each one is told anew
        inner.fill_rectangle(inner.create_gc(foreground=colour), 5, 5, 1, 1)
        connection.sync()
        await until(lambda: desktop.changed)
        shot = await desktop.screenshot(known=first)
        assert shot.pixels_sha256 != first.pixels_sha256
        first = await _settled(desktop)
    connection.close()


async def test_what_was_drawn_before_one_asks_is_told_at_once(desktop: Desktop) -> None:
    """Nobody waits for the event: the server has done the drawing, and may not have sent the event yet."""
    connection = xlib.Display(desktop.display)
    root = connection.screen().root
    context = root.create_gc(foreground=0xFF00FF, subwindow_mode=X.IncludeInferiors)
    shot = await _settled(desktop)
    late = 0
    for _ in range(200):
        root.fill_rectangle(context, 5, 5, 1, 1)
        connection.sync()
        if not desktop.changed:
            late += 1
        await until(lambda: desktop.changed)
        shot = await desktop.screenshot(known=shot)  # the same pixels but for the first: nothing is encoded
    assert late == 0
    connection.close()


async def test_a_server_that_does_not_answer_is_not_waited_for(
    desktop: Desktop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _settled(desktop)
    monkeypatch.setattr(screen_watch, "_ANSWER_S", ANSWER_S)
    server = desktop._children["Xvnc"].pid
    os.kill(server, signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert desktop.changed  # in doubt
        assert desktop.changed
        assert time.monotonic() - began < 5
    finally:
        os.kill(server, signal.SIGCONT)
    await _settled(desktop)
    assert not desktop.changed


async def test_screenshots_at_once_all_show_the_present(desktop: Desktop) -> None:
    old = await _settled(desktop)
    connection = xlib.Display(desktop.display)
    connection.screen().root.change_attributes(background_pixel=0x123456)
    connection.screen().root.clear_area()
    connection.sync()
    connection.close()
    shots = await asyncio.gather(*(desktop.screenshot(known=old) for _ in range(4)))
    assert old.pixels_sha256 not in {shot.pixels_sha256 for shot in shots}


async def test_a_watch_that_lost_its_display_says_changed(desktop: Desktop) -> None:
    await _settled(desktop)
    assert not desktop.changed
    os.kill(desktop._children["Xvnc"].pid, signal.SIGKILL)
    await desktop.ended()
    await until(lambda: desktop.changed)


async def _settled(desktop: Desktop) -> screenshots.Screenshot:
    """Return a screenshot after which nothing was drawn for a moment."""
    shot = await desktop.screenshot()
    async with asyncio.timeout(GUARD_S):
        while True:
            await asyncio.sleep(0.2)
            if not desktop.changed:
                return shot
            shot = await desktop.screenshot(known=shot)
