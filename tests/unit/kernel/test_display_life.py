"""Whether an X server answers: a silent one is told from a sound one and from none, within the bound, whoever asks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from cellwright_kernel.child import NotUp
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.desktop_keeper import DesktopKeeper
from cellwright_kernel.display_life import answers
from cellwright_kernel.python import x_connection
from cellwright_kernel.python.x_connection import Connection, DisplayLost
from cellwright_kernel.wire import HostSettings

SILENT = "The display did not answer for 3 s, as if it had been stopped or hung, and was ended."


@pytest.fixture
def listener() -> Iterator[tuple[str, socket.socket]]:
    """A display's name that is nobody's, and who listens there."""
    number = 10_000 + os.getpid() % 50_000
    place = Path(f"/tmp/.X11-unix/X{number}")
    place.parent.mkdir(mode=0o1777, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        yield f":{number}", listening
    place.unlink()


def test_a_server_that_says_nothing_does_not_answer(listener: tuple[str, socket.socket]) -> None:
    began = time.monotonic()
    assert not answers(listener[0], 0.1)
    assert 0.1 <= time.monotonic() - began < 2


def test_one_that_hangs_up_has_answered(listener: tuple[str, socket.socket]) -> None:
    def hang_up() -> None:
        listener[1].accept()[0].close()

    hanging_up = threading.Thread(target=hang_up)
    hanging_up.start()
    assert answers(listener[0], 5)
    hanging_up.join()


def test_where_nobody_is_or_it_is_elsewhere_nothing_is_waited_for() -> None:
    began = time.monotonic()
    assert answers(":9999999", 5)
    assert answers("elsewhere:0", 5)
    assert time.monotonic() - began < 1


def test_a_new_connection_to_a_silent_server_is_an_error_in_bounded_time(
    listener: tuple[str, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_connection, "_ANSWER_S", 0.1)
    connection = Connection(listener[0])
    with (
        pytest.raises(DisplayLost, match=r"did not answer within 0\.1 s\. Usually its server is stopped or hangs"),
        connection.use(),
    ):
        pass
    assert connection.is_silent


@pytest_asyncio.fixture
async def desktop(tmp_path: Path) -> AsyncIterator[Desktop]:
    started = Desktop(HostSettings(door="fd:3", home=str(tmp_path)), tmp_path)
    await started.start()
    yield started
    await started.stop()


@pytest.mark.slow
async def test_sound_ones_are_left_alone(desktop: Desktop) -> None:
    assert answers(desktop.display, 5)
    assert not await desktop.end_if_silent()
    assert not await desktop.end_if_silent_window_manager()
    assert desktop.running


@pytest.mark.slow
async def test_a_display_that_is_stopped_is_ended_and_that_is_said(desktop: Desktop) -> None:
    os.kill(desktop._children["Xvnc"].pid, signal.SIGSTOP)
    assert await desktop.end_if_silent()
    assert desktop.fault is not None
    assert desktop.fault.startswith(f"{SILENT} Every window that was open is gone. Its log:")
    assert not await desktop.end_if_silent()


@pytest.mark.slow
async def test_a_window_manager_that_is_stopped_is_ended_and_that_is_said(desktop: Desktop) -> None:
    os.kill(desktop._children["openbox"].pid, signal.SIGSTOP)
    assert not await desktop.end_if_silent()
    assert await desktop.end_if_silent_window_manager()
    assert desktop.fault is not None
    assert desktop.fault.startswith(SILENT.replace("display", "window manager"))
    assert desktop.has_display
    await desktop.start_window_manager()
    assert desktop.fault is None


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # python-xlib leaves refused sockets open
async def test_a_screenshot_of_a_display_that_is_stopped_has_an_end_and_starts_it_again(tmp_path: Path) -> None:
    notes: list[str] = []
    settings = HostSettings(door="fd:3", home=str(tmp_path), browser=False)
    keeper = DesktopKeeper(settings, tmp_path, {}, notes.append)
    await keeper.start(asyncio.Event())
    keeping = asyncio.ensure_future(keeper.keep())
    await asyncio.sleep(0)
    os.kill(keeper._desktop._children["Xvnc"].pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(NotUp, match="No screenshot could be taken"):
        await keeper.screenshot()
    assert time.monotonic() - began < 5  # so long the outside waits for a word
    assert not keeper.usable.is_set()
    async with asyncio.timeout(10):
        await keeper.usable.wait()
    assert (await keeper.screenshot()).width == 1440
    assert notes == [f"{SILENT} Every window that was open is gone. The display was started again; windows are closed."]
    keeping.cancel()
    await asyncio.wait({keeping})
    await keeper.stop()
    gc.collect()  # here, and not in a test that comes later


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """As in a kernel; asyncio's own handler cancels a task."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt_after(*seconds: float) -> None:
    for one in seconds:
        timer = threading.Timer(one, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()


@pytest.mark.slow
async def test_an_interrupt_ends_the_wait_for_a_display_that_is_stopped(desktop: Desktop) -> None:
    server = desktop._children["Xvnc"].pid
    open_one, new_one = Connection(desktop.display), Connection(desktop.display)
    with open_one.use() as display:
        size = display.screen().root.get_geometry()
    os.kill(server, signal.SIGSTOP)
    with interrupts_raise():
        interrupt_after(0.1, 0.3)
        with pytest.raises(KeyboardInterrupt), open_one.use() as display:
            display.screen().root.get_geometry()
        assert open_one.is_silent
        interrupt_after(0.1)
        with pytest.raises(KeyboardInterrupt), new_one.use():
            pass
        assert new_one.is_silent
    os.kill(server, signal.SIGCONT)
    for connection in (open_one, new_one):
        with connection.use() as display:
            assert display.screen().root.get_geometry().width == size.width
        assert not connection.is_silent
        connection.close()
