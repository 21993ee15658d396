"""Whether an X server answers: a silent one is told from a sound one and from none, within the bound, whoever asks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import GUARD_S, until

from cellwright.sandbox.door import SILENCE_S
from cellwright_kernel import desktop as desktop_module
from cellwright_kernel import desktop_keeper
from cellwright_kernel.child import NotUp
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.desktop_keeper import DesktopKeeper
from cellwright_kernel.display_life import answers
from cellwright_kernel.python import x_connection
from cellwright_kernel.python.x_connection import Connection, DisplayLost
from cellwright_kernel.wire import HostSettings

SILENT = "The display did not answer for 3 s, as if it had been stopped or hung, and was ended."


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is given up sooner; that it is after 3 s, as is said, the ladder's rows show."""
    monkeypatch.setattr(desktop_module, "_ANSWER_S", 0.5)
    monkeypatch.setattr(desktop_keeper, "_PICTURE_S", 0.5)


@pytest.fixture
def listener() -> Iterator[tuple[str, socket.socket]]:
    """A display's name that is nobody's, and who listens there."""
    number = 10_000 + os.getpid() % 50_000
    place = Path(f"/tmp/.X11-unix/X{number}")
    if not place.parent.exists():
        place.parent.mkdir()
        place.parent.chmod(0o1777)  # not cut by the umask: other users' servers have their sockets there too
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen(0)
        yield f":{number}", listening
    place.unlink()


def test_a_server_that_says_nothing_does_not_answer_and_none_does_that_lets_nobody_in(
    listener: tuple[str, socket.socket],
) -> None:
    assert [answers(listener[0], 0.1) for _ in range(5)] == [False] * 5  # one may wait to be let in


def test_the_wait_for_one_that_says_nothing_is_as_long_as_asked(listener: tuple[str, socket.socket]) -> None:
    began = time.monotonic()
    answers(listener[0], 0.1)
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


@pytest.mark.slow
async def test_sound_ones_are_left_alone(desktop: Desktop) -> None:
    assert answers(desktop.display, 5)
    assert not await desktop.end_if_silent()
    assert not await desktop.end_if_silent_window_manager()
    assert not desktop.kill_stopped_window_manager()
    assert desktop.running


@pytest.mark.slow
@pytest.mark.usefixtures("short_patience")
async def test_a_display_that_is_stopped_is_ended_and_that_is_said(desktop: Desktop) -> None:
    os.kill(desktop._children["Xvnc"].pid, signal.SIGSTOP)
    assert await desktop.end_if_silent()
    assert desktop.fault is not None
    assert desktop.fault.startswith(f"{SILENT} Every window that was open is gone. Its log:")
    assert not await desktop.end_if_silent()


@pytest.mark.slow
@pytest.mark.usefixtures("short_patience")
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
@pytest.mark.usefixtures("short_patience")
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
    with pytest.raises(NotUp, match="No screenshot could be taken"):
        await keeper.screenshot()
    assert not keeper.usable.is_set()
    async with asyncio.timeout(GUARD_S):
        await keeper.usable.wait()
    assert (await keeper.screenshot()).width == 1440
    assert notes == [f"{SILENT} Every window that was open is gone. The display was started again; windows are closed."]
    keeping.cancel()
    await asyncio.wait({keeping})
    await keeper.stop()
    gc.collect()  # here, and not in a test that comes later


def test_a_display_that_hangs_is_found_before_the_outside_gives_up_its_screenshot() -> None:
    assert desktop_keeper._PICTURE_S + desktop_module._ANSWER_S < SILENCE_S


WAITING = """
import signal, sys
from cellwright_kernel.python.x_connection import Connection
connection = Connection(sys.argv[1])
if sys.argv[2] == "open":
    with connection.use() as display:
        display.screen().root.get_geometry()
try:
    print("waits", flush=True)
    sys.stdin.readline()
    with connection.use() as display:
        display.screen().root.get_geometry()
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", connection.is_silent, flush=True)
sys.stdin.readline()
with connection.use() as display:
    print("goes on", display.screen().root.get_geometry().width, connection.is_silent, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("connection", ["open", "new"])
async def test_an_interrupt_ends_the_wait_for_a_display_that_is_stopped(desktop: Desktop, connection: str) -> None:
    server = desktop._children["Xvnc"].pid
    waiting = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WAITING, desktop.display, connection),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    try:
        async with asyncio.timeout(GUARD_S):
            assert await waiting.stdout.readline() == b"waits\n"
            os.kill(server, signal.SIGSTOP)
            waiting.stdin.write(b"\n")
            said = asyncio.ensure_future(waiting.stdout.readline())
            while not (await asyncio.wait({said}, timeout=0.2))[0]:  # two that come at once count as one
                waiting.send_signal(signal.SIGINT)
            assert await said == b"interrupted True\n"
            os.kill(server, signal.SIGCONT)
            waiting.stdin.write(b"\n")
            assert await waiting.stdout.readline() == b"goes on 1440 False\n"
            assert await waiting.wait() == 0
    finally:
        if waiting.returncode is None:
            waiting.kill()
            await waiting.wait()


@pytest.mark.slow
async def test_a_window_manager_that_is_stopped_is_known_by_its_process_alone(desktop: Desktop) -> None:
    os.kill(desktop._children["openbox"].pid, signal.SIGSTOP)
    await until(desktop.kill_stopped_window_manager)
    await desktop.ended()
    assert desktop.fault is not None
    assert desktop.fault.startswith(
        "The window manager had been stopped by a signal, so that no click arrived anywhere, and was ended. The windows are "
    )
    assert not desktop.kill_stopped_window_manager()
