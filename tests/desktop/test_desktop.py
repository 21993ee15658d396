"""A real Xvnc and a real window manager: they come up, are looked at, lose their held keys, and leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.serving import alive
from tests.waiting import GUARD_S, until
from Xlib import X
from Xlib import display as xlib
from Xlib.ext import xtest

from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.desktop import Desktop, _number_from
from cellwright_kernel.desktop_keeper import DesktopKeeper
from cellwright_kernel.wire import HostSettings

pytestmark = [pytest.mark.slow]

_BACKGROUND = (0x3A, 0x5F, 0x7D)


async def test_a_new_desktop_shows_its_background(desktop: Desktop) -> None:
    shot = await desktop.screenshot()
    assert (shot.width, shot.height) == (1440, 1000)
    with Image.open(io.BytesIO(shot.png)) as picture:
        assert picture.size == (1440, 1000)
        assert picture.getcolors() == [(1440 * 1000, _BACKGROUND)]


async def test_an_unchanged_screen_is_the_very_same_picture(desktop: Desktop) -> None:
    first = await desktop.screenshot()
    assert await desktop.screenshot(known=first) is first
    connection = xlib.Display(desktop.display)
    _window(connection)
    changed = await desktop.screenshot(known=first)
    assert changed.pixels_sha256 != first.pixels_sha256
    connection.close()


async def test_what_a_cell_left_is_shown_once_however_late_it_is_asked_for_and_for_no_other_cell(
    tmp_path: Path,
) -> None:
    keeper = DesktopKeeper(HostSettings(door="fd:3", home=str(tmp_path), browser=False), tmp_path, {}, print)
    await keeper.start(asyncio.Event())
    try:
        async with asyncio.timeout(GUARD_S):
            await _what_is_left(keeper)
    finally:
        await keeper.stop()


async def _what_is_left(keeper: DesktopKeeper) -> None:
    await until(lambda: not keeper.cell_ended(1))  # the first picture is always one of something new
    connection = xlib.Display(keeper.display_name)
    _window(connection)
    assert keeper.cell_ended(2)
    assert keeper._begun is not None
    left = await keeper._begun[1]
    connection.close()
    while (now := await keeper.screenshot()).pixels_sha256 == left.pixels_sha256:  # noqa: ASYNC110 - nobody tells when
        await asyncio.sleep(0.1)
    for another in (None, 1, 3):
        assert (await keeper.screenshot(left_by=another)).pixels_sha256 == now.pixels_sha256
    assert await keeper.screenshot(left_by=2) is left
    assert (await keeper.screenshot(left_by=2)).pixels_sha256 == now.pixels_sha256


async def test_a_new_window_gets_the_focus_and_a_title_bar(desktop: Desktop) -> None:
    connection = xlib.Display(desktop.display)
    window = _window(connection)
    atom = connection.intern_atom("_NET_ACTIVE_WINDOW")
    await until(lambda: _property(connection, atom) == [window.id])
    extents = window.get_full_property(connection.intern_atom("_NET_FRAME_EXTENTS"), X.AnyPropertyType).value
    assert extents[2] > 10
    connection.close()


async def test_held_keys_and_buttons_are_let_go(desktop: Desktop) -> None:
    connection = xlib.Display(desktop.display)
    shift, letter = connection.keysym_to_keycode(0xFFE1), connection.keysym_to_keycode(ord("a"))
    for code in (shift, letter):
        xtest.fake_input(connection, X.KeyPress, code)
    xtest.fake_input(connection, X.ButtonPress, 1)
    connection.sync()
    assert await desktop.release_keys() == 3
    assert not any(connection.query_keymap())
    assert not connection.screen().root.query_pointer().mask & X.Button1Mask
    assert await desktop.release_keys() == 0
    connection.close()


async def test_the_keyboard_is_american(desktop: Desktop) -> None:
    connection = xlib.Display(desktop.display)
    atom = connection.intern_atom("_XKB_RULES_NAMES")
    rules = connection.screen().root.get_full_property(atom, X.AnyPropertyType).value
    assert bytes(rules).split(b"\0")[:4] == [b"evdev", b"pc105", b"us", b""]
    connection.close()


async def test_the_end_of_a_part_is_noticed_and_named(desktop: Desktop) -> None:
    assert desktop.running
    assert desktop.fault is None
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(desktop.ended())
        os.kill(desktop._children["Xvnc"].pid, signal.SIGTERM)
        async with asyncio.timeout(GUARD_S):
            assert (await ended).startswith("Xvnc exited with status 0. Every window that was open is gone.")
    assert not desktop.running
    with pytest.raises(NotUp, match=r"Xvnc exited with status 0\."):
        await desktop.screenshot()
    with pytest.raises(NotUp, match=r"Xvnc exited with status 0\."):
        await desktop.release_keys()


async def test_a_display_that_takes_long_to_end_is_named_and_not_the_window_manager_that_ended_with_it(
    desktop: Desktop,
) -> None:
    display, manager = (desktop._children[name].pid for name in ("Xvnc", "openbox"))
    async with asyncio.TaskGroup() as group:
        ended = group.create_task(desktop.ended())
        os.kill(
            display, signal.SIGSTOP
        )  # answers nothing any more, as one that closes its clients and frees what it has
        os.kill(manager, signal.SIGKILL)
        await asyncio.sleep(0.5)  # longer than its end was waited for
        os.kill(display, signal.SIGKILL)
        async with asyncio.timeout(GUARD_S):
            assert (await ended).startswith("Xvnc was ended by SIGKILL. Every window that was open is gone.")


async def test_a_window_manager_that_ended_can_be_started_again(desktop: Desktop) -> None:
    os.kill(desktop._children["openbox"].pid, signal.SIGKILL)
    async with asyncio.timeout(GUARD_S):
        assert (await desktop.ended()).startswith("openbox was ended by SIGKILL. The windows are still there")
    await desktop.start_window_manager()
    assert desktop.running
    assert desktop.fault is None


async def test_two_desktops_do_not_meet(desktop: Desktop, tmp_path: Path) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    other = Desktop(HostSettings(door="fd:3", home=str(folder), width=800, height=600), folder)
    await other.start()
    assert other.display != desktop.display
    assert (await other.screenshot()).width == 800
    await other.stop()


async def test_stop_may_be_called_twice_and_before_start(tmp_path: Path) -> None:
    desktop = Desktop(HostSettings(door="fd:3", home=str(tmp_path)), tmp_path)
    await desktop.stop()
    await desktop.stop()
    with pytest.raises(NotUp, match="has not been started"):
        _ = desktop.display


async def test_a_part_that_does_not_come_up_is_told_with_its_log(tmp_path: Path) -> None:
    child = await Child.start(
        "server", ["sh", "-c", "echo no fonts; exit 3"], environment={"PATH": os.environ["PATH"]}, folder=tmp_path
    )

    async def never() -> None:
        return None

    with pytest.raises(NotUp) as caught:
        await child.wait_for(never, "X display", within_s=GUARD_S)
    assert str(caught.value) == (
        "No X display came up (server exited with status 3). Usually a package is missing or the memory is used up; "
        "`cellwright doctor` says which. Its log:\n    no fonts"
    )


async def test_a_child_is_ended_with_what_it_started(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 600 & echo $!; wait; sleep 600"
    child = await Child.start(
        "stubborn", ["sh", "-c", script], environment={"PATH": os.environ["PATH"]}, folder=tmp_path
    )

    async def grandchild() -> int | None:
        return int(child.log() or 0) or None

    pid = await child.wait_for(grandchild, "grandchild", within_s=GUARD_S)
    await child.stop(gently_s=0.1)
    await until(lambda: not alive({pid}))
    assert child.how_it_ended() == "stubborn was ended by SIGKILL."


@pytest.mark.parametrize(
    "is_at",
    [
        lambda again: "Xvnc" in again._children,
        lambda again: again._number is not None,
        lambda again: "openbox" in again._children,
    ],
    ids=["the server", "the root window", "the window manager"],
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # python-xlib leaves refused sockets open
async def test_a_display_that_dies_while_it_is_started_again_is_started_once_more(
    tmp_path: Path, is_at: Callable[[Desktop], bool]
) -> None:
    """Whatever it was at: it is no fault of the kernel host, which would end of one."""
    notes: list[str] = []
    settings = HostSettings(door="fd:3", home=str(tmp_path), browser=False)
    keeper = DesktopKeeper(settings, tmp_path, {}, notes.append)
    await keeper.start(asyncio.Event())
    keeping = asyncio.ensure_future(keeper.keep())
    first = keeper._desktop
    os.kill(first._children["Xvnc"].pid, signal.SIGKILL)
    async with asyncio.timeout(GUARD_S):
        while keeper._desktop is first or not is_at(keeper._desktop):  # noqa: ASYNC110 - the very moment is meant
            await asyncio.sleep(0)
        os.kill(keeper._desktop._children["Xvnc"].pid, signal.SIGKILL)
        while not (notes and keeper.usable.is_set() and keeper._desktop.running):  # noqa: ASYNC110 - others note, not we
            await asyncio.sleep(0.005)
    assert not keeping.done()
    assert (await keeper.screenshot()).width == 1440
    keeping.cancel()
    await asyncio.wait({keeping})
    await keeper.stop()
    again = "Every window that was open is gone. The display was started again; windows are closed."
    assert set(notes) == {f"Xvnc was ended by SIGKILL. {again}"}
    gc.collect()  # here, and not in a test that comes later


async def test_keys_are_let_go_again_once_a_stopped_server_goes_on(desktop: Desktop) -> None:
    server = desktop._children["Xvnc"].pid
    os.kill(server, signal.SIGSTOP)
    for _ in range(20):  # more than there are threads
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await desktop.release_keys()
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), GUARD_S) == 1
    os.kill(server, signal.SIGCONT)
    assert await desktop.release_keys() == 0


def _window(connection: xlib.Display) -> xlib.X:
    screen = connection.screen()
    window = screen.root.create_window(100, 100, 300, 200, 0, screen.root_depth, background_pixel=screen.white_pixel)
    window.set_wm_name("a window")
    window.change_attributes(event_mask=X.ExposureMask)
    window.map()
    _wait(connection, X.Expose)
    return window


def _wait(connection: xlib.Display, kind: int) -> None:
    """Take events until one of that kind."""
    end = time.monotonic() + GUARD_S
    while not connection.pending_events() or connection.next_event().type != kind:
        assert time.monotonic() < end, "the window was never shown"
        select.select([connection.fileno()], [], [], 0.1)


def _property(connection: xlib.Display, atom: int) -> list[int]:
    found = connection.screen().root.get_full_property(atom, X.AnyPropertyType)
    return list(found.value) if found else []


async def test_the_displays_number_may_come_apart_from_its_newline() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        said = bytearray()
        assert await _number_from(reader, said) is None
        for part, number in ((b"10", None), (b"7", None), (b"\n", 107)):
            os.write(writer, part)
            assert await _number_from(reader, said) == number
    finally:
        os.close(reader)
        os.close(writer)
