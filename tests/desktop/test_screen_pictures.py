"""Pictures of a real display, through memory that its server shares."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from PIL import ImageGrab
from tests.waiting import GUARD_S
from Xlib.display import Display

from cellwright_kernel.desktop import Desktop
from cellwright_kernel.python.x_connection import Connection
from cellwright_kernel.screen import pictures as pictures_module
from cellwright_kernel.screen.grab import Grabber
from cellwright_kernel.screen.pictures import OwnConnection, Pictures
from cellwright_kernel.screenshots import Screenshots
from cellwright_kernel.wire import HostSettings

pytestmark = [pytest.mark.slow]


async def test_a_picture_has_the_pixels_of_the_screen_and_a_region_those_of_its_part(bare_desktop: Desktop) -> None:
    display = Display(bare_desktop.display)
    grabber = Grabber(display)
    window = display.screen().root.create_window(100, 50, 300, 200, 0, 24, background_pixel=0xC02010)
    window.map()
    display.sync()
    whole, expected = grabber.grab(), ImageGrab.grab(xdisplay=bare_desktop.display)
    assert grabber._memory is not None
    assert not grabber._is_refused
    assert (whole.size, whole.getpixel((150, 100))) == ((1440, 1000), (0xC0, 0x20, 0x10))
    assert whole.tobytes() == expected.tobytes()
    assert b"".join(strip.tobytes() for strip in grabber.strips()) == expected.tobytes()
    assert grabber.grab((90, 40, 31, 17)).tobytes() == expected.crop((90, 40, 121, 57)).tobytes()
    grabber.close()
    display.close()


async def test_without_shared_memory_the_picture_is_the_same(bare_desktop: Desktop) -> None:
    display = Display(bare_desktop.display)
    shared, other = Grabber(display), Grabber(display)
    other._is_refused = True
    assert other.grab().tobytes() == shared.grab().tobytes()
    assert [strip.tobytes() for strip in other.strips()] == [strip.tobytes() for strip in shared.strips()]
    assert other.grab((5, 6, 70, 80)).tobytes() == shared.grab((5, 6, 70, 80)).tobytes()
    assert other._memory is None
    shared.close()
    display.close()


async def test_a_screen_that_grows_leaves_no_memory_behind_in_the_server(bare_desktop: Desktop) -> None:
    display = Display(bare_desktop.display)
    grabber = Grabber(display)
    for size in (6_000_000, 7_000_000, 8_000_000, 9_000_000):
        assert grabber._shared(size) is not None
        grabber.grab()
    display.sync()
    server = bare_desktop._children["Xvnc"].pid
    maps = await asyncio.to_thread(Path(f"/proc/{server}/maps").read_text)
    assert maps.count("/SYSV") == 1
    grabber.close()
    display.close()


async def test_a_picture_of_who_never_answers_is_given_up_and_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hung, released = threading.Event(), threading.Event()

    def never(_name: str) -> Display:
        hung.set()
        released.wait(GUARD_S)
        raise ConnectionError

    monkeypatch.setattr(pictures_module, "Display", never)
    monkeypatch.setattr(pictures_module, "_END_S", 0.05)
    shots = Screenshots(":1")
    shots._is_watched = True
    taking = asyncio.ensure_future(shots.take(None))
    await asyncio.to_thread(hung.wait, GUARD_S)
    taking.cancel()
    async with asyncio.timeout(GUARD_S / 2):
        await shots.stop()
    released.set()
    await asyncio.wait({taking})


@pytest.mark.parametrize("region", [(0, 0, 1441, 10), (-1, 0, 5, 5), (0, 0, 0, 5), (0, 990, 5, 11), (1, 2, 3)])
async def test_a_region_beyond_the_screen_is_refused(bare_desktop: Desktop, region: tuple[int, ...]) -> None:
    connection = OwnConnection(bare_desktop.display)
    with pytest.raises(ValueError, match="is not within the desktop, which is 1440x1000 pixels"):
        Pictures(connection).take(region)
    connection.close()


# python-xlib leaves the sockets with which it tried in vain to the collector
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_a_display_that_has_gone_is_told_of_and_its_successor_is_found(
    bare_desktop: Desktop, tmp_path: Path
) -> None:
    connection = OwnConnection(bare_desktop.display)
    pictures = Pictures(connection)
    before = pictures.take()
    await bare_desktop.stop()
    with pytest.raises(ConnectionError, match="does not answer"):
        pictures.take()
    again = Desktop(HostSettings(door="fd:3", home=str(tmp_path)), tmp_path, display=bare_desktop.display)
    await again.start_display()
    assert pictures.take().tobytes() == before.tobytes()
    connection.close()
    await again.stop()


@pytest.mark.parametrize("connected", [OwnConnection, Connection])
async def test_a_display_that_was_started_again_is_used_at_once(
    bare_desktop: Desktop, tmp_path: Path, connected: type[OwnConnection] | type[Connection]
) -> None:
    connection = connected(bare_desktop.display)
    with connection.use() as display:
        display.sync()
    await bare_desktop.stop()
    again = Desktop(HostSettings(door="fd:3", home=str(tmp_path)), tmp_path, display=bare_desktop.display)
    await again.start_display()
    try:
        with connection.use() as display:
            assert display.screen().root.get_geometry().width == 1440
    finally:
        connection.close()
        await again.stop()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_child_has_a_connection_of_its_own(bare_desktop: Desktop) -> None:
    connection = OwnConnection(bare_desktop.display)
    with connection.use() as display:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with connection.use() as own:
                    status = 0 if own is not display and own.screen().root.get_geometry().width == 1440 else 2
            finally:
                os._exit(status)
    _, ended = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    with connection.use() as display:
        assert display.screen().root.get_geometry().width == 1440
    connection.close()
