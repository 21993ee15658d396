"""A real Chromium's life: ready, watched, killed, started again; what it may reach, where downloads go, what it shows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import ImageGrab
from tests.waiting import GUARD_S, until

from cellwright_kernel.browser import Browser
from cellwright_kernel.child import NotUp
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.devtools import Devtools, DevtoolsError, NotAnswered
from cellwright_kernel.navigation import Navigation, navigation_of
from cellwright_kernel.wire import HostSettings

pytestmark = [pytest.mark.sandbox]


@pytest_asyncio.fixture
async def browser(
    desktop: Desktop,
    home: Path,
    chromium_in: Callable[[Path], str],
    processes_that_name: Callable[[Path], list[str]],
) -> AsyncIterator[Browser]:
    settings = HostSettings(door="fd:3", home=str(home), chromium=chromium_in(home))
    started = Browser(settings, desktop.display, home)
    await started.start()
    yield started
    await started.stop()
    assert [line for line in processes_that_name(home / "chromium") if "Xvnc" not in line] == []


@pytest.fixture
def web() -> Iterator[str]:
    """A web server on the loopback, and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    serving.join()
    server.server_close()


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        if self.path == "/report.csv":
            self.send_header("Content-Type", "text/csv")
            self.send_header("Content-Disposition", "attachment")
        else:
            self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>home</title><a href=/report.csv>report</a>")

    def log_message(self, *_: object) -> None:
        return


async def test_a_killed_chromium_is_noticed_and_comes_back_on_the_same_port(browser: Browser) -> None:
    assert browser.running
    assert browser.version.startswith("Chrome/")
    address, pid = browser.cdp_url, browser.pid
    assert pid is not None
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(browser.watch())
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(GUARD_S):
            assert (await watching).startswith("chromium was ended by SIGKILL. Its pages are closed.")
    assert not browser.running
    assert browser.fault is not None
    await browser.restart()
    assert (browser.running, browser.fault, browser.cdp_url) == (True, None, address)
    assert browser.pid != pid
    assert await browser.viewport_origin() == (0, 87)


async def test_after_the_last_page_was_closed_the_same_browser_has_a_new_one(browser: Browser) -> None:
    pid = browser.pid
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(browser.watch())
        async with Devtools.opened(browser._socket_url) as devtools:
            await devtools.call("Target.setDiscoverTargets", discover=True, filter=[{"type": "page"}])
            first = (await devtools.event())["params"]["targetInfo"]["targetId"]
            await devtools.call("Target.closeTarget", targetId=first)
            second = ""
            async with asyncio.timeout(GUARD_S):
                while second in {"", first}:
                    second = (await devtools.event())["params"].get("targetInfo", {}).get("targetId", "")
            attached = await devtools.call("Target.attachToTarget", targetId=second, flatten=True)
            async with asyncio.timeout(GUARD_S):
                while await devtools.evaluate(attached["sessionId"], "[innerWidth, innerHeight]") != [1440, 900]:
                    pass
        watching.cancel()
    assert (browser.running, browser.pid) == (True, pid)


async def test_a_profile_in_use_is_refused(browser: Browser, desktop: Desktop, home: Path) -> None:
    second = Browser(HostSettings(door="fd:3", home=str(home)), desktop.display, home)
    with pytest.raises(NotUp, match=r"Another Chromium .* uses this profile"):
        await second.start()
    assert browser.running


async def test_a_chromium_that_does_not_start_is_told_with_its_log(desktop: Desktop, home: Path) -> None:
    broken = home / "broken"
    broken.write_text("#!/bin/sh\necho 'No usable sandbox!' >&2\nexit 1\n")
    broken.chmod(0o755)
    browser = Browser(HostSettings(door="fd:3", home=str(home), chromium=str(broken)), desktop.display, home)
    with pytest.raises(
        NotUp, match=r"No DevTools port came up \(chromium exited with status 1\).*\n    No usable sandbox!"
    ):
        await browser.start()
    assert not browser.running


async def test_loopback_is_reached_and_the_rest_is_not(browser: Browser, web: str) -> None:
    async with Devtools.opened(browser._socket_url) as devtools:
        assert await _text(devtools, web) == "report"
        assert "ERR_PROXY_CONNECTION_FAILED" in await _text(devtools, "http://192.0.2.1/")


async def test_a_download_lands_in_the_homes_downloads(browser: Browser, web: str, home: Path) -> None:
    async with Devtools.opened(browser._socket_url) as devtools:
        session = await _open(devtools, web)
        await _text_of(devtools, session)
        await devtools.call(
            "Runtime.evaluate", session, expression="document.querySelector('a').click()", userGesture=True
        )
        file = home / "Downloads" / "report.csv"
        await until(file.exists)
        assert file.read_bytes().startswith(b"<title>home")
        assert await devtools.evaluate(session, "[innerWidth, innerHeight]") == [1440, 900]


async def test_an_alert_is_shown_on_the_screen(browser: Browser, desktop: Desktop, web: str) -> None:
    """Our own connection must not keep Chromium from showing it: pointer and keyboard are to answer it."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(browser.watch())
        async with Devtools.opened(browser._socket_url) as devtools:
            session = await _open(devtools, web)
            await _text_of(devtools, session)
            with pytest.raises(DevtoolsError, match="not answered within"):
                await devtools.call("Runtime.evaluate", session, within_s=0.5, expression="alert('here')")
        await until(lambda: ImageGrab.grab(xdisplay=desktop.display).getpixel((1, 980)) != (255, 255, 255))
        watching.cancel()


async def test_chromium_tells_where_a_page_goes_that_cannot_say_it_itself(browser: Browser, web: str) -> None:
    async with Devtools.opened(browser._socket_url) as devtools, _silent_server() as silent:
        session, target = await _opened(devtools, web)
        await _text_of(devtools, session)
        assert await navigation_of(devtools, target) is None
        await devtools.evaluate(session, f"setTimeout(() => {{ location = {silent!r} }}) && 1")
        assert await _navigating(devtools, target) == Navigation(silent, is_answered=False)
        assert await navigation_of(devtools, target) == Navigation(silent, is_answered=False)
        await devtools.call("Target.closeTarget", targetId=target)
        async with asyncio.timeout(GUARD_S):
            while await navigation_of(devtools, target) is not None:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.02)


async def test_a_page_whose_server_has_answered_and_whose_process_is_busy_is_on_its_way(
    browser: Browser, web: str
) -> None:
    async with Devtools.opened(browser._socket_url) as devtools:
        session, target = await _opened(devtools, web)
        await _text_of(devtools, session)
        await devtools.evaluate(session, "setTimeout(() => { for (;;); }) && 1")
        assert await navigation_of(devtools, target) is None
        with contextlib.suppress(NotAnswered):  # some versions answer before the page is there
            await devtools.call("Page.navigate", session, within_s=0.5, url=f"{web}next")
        navigation = await _navigating(devtools, target)
        assert navigation.is_answered
        assert navigation.url in ("", f"{web}next")
        await devtools.call("Target.closeTarget", targetId=target)


async def _navigating(devtools: Devtools, target: str) -> Navigation:
    async with asyncio.timeout(GUARD_S):
        while (navigation := await navigation_of(devtools, target)) is None:  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.02)
    return navigation


@contextlib.asynccontextmanager
async def _silent_server() -> AsyncIterator[str]:
    """A server that takes connections and answers nothing, and its address."""
    ended = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}/"
        finally:
            ended.set()


async def _open(devtools: Devtools, url: str) -> str:
    return (await _opened(devtools, url))[0]


async def _opened(devtools: Devtools, url: str) -> tuple[str, str]:
    """Session and target of a new page."""
    target = await devtools.call("Target.createTarget", url=url)
    attached = await devtools.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
    return str(attached["sessionId"]), str(target["targetId"])


async def _text(devtools: Devtools, url: str) -> str:
    return await _text_of(devtools, await _open(devtools, url))


async def _text_of(devtools: Devtools, session: str) -> str:
    """The page's text once it has some."""
    async with asyncio.timeout(GUARD_S):
        while not (text := await devtools.evaluate(session, "document.body ? document.body.innerText : ''")):  # noqa: ASYNC110 - as below
            await asyncio.sleep(0.02)
    return str(text)
