"""The kernel host with its whole desktop: what ends of it is there again, and is told of. One host has all of the tests' cells."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.hosts import Host, running
from tests.waiting import GUARD_S

from cellwright_kernel import processes

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the host has its home."""
    return tmp_path_factory.mktemp("host")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole_host(folder: Path) -> AsyncIterator[Host]:
    async with running(folder, desktop=True, chromium_sandbox=os.getuid() != 0) as host:
        ready = await host.ready()
        assert (ready.ready, ready.missing) == (True, ())
        yield host


def named(home: Path, name: str) -> list[int]:
    mark = f"HOME={home}".encode()
    return [
        p.pid
        for p in processes._table()
        if mark in processes._read(p.pid, "environ") and Path(p.command.split(" ")[0]).name == name
    ]


async def texts_once_noticed(host: Host, what: str) -> list[str]:
    """Execute cells until one says that something ended; it takes the host a moment to see it."""
    async with asyncio.timeout(GUARD_S):
        while not (texts := await host.texts("1"))[0].startswith(what):
            pass
    return texts


async def test_a_browser_that_ended_is_told_of_and_there_again(whole_host, folder):
    await whole_host.execute("await page.goto('data:text/html,<title>one</title>')")
    os.kill(min(named(folder / "home", "chromium")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "chromium")
    assert texts[0] == (
        "chromium was ended by SIGKILL. Its pages are closed. "
        "A new browser was started on the same profile; pages that were open are closed."
    )
    assert texts[-1] == "1"
    assert (await whole_host.texts("await page.evaluate('innerWidth')"))[-1] == "1440"


async def test_code_that_closes_the_last_page_can_open_the_next(whole_host, folder):
    pid = min(named(folder / "home", "chromium"))
    await whole_host.execute("await page.goto('data:text/html,<title>one</title>')")
    assert await whole_host.texts("await page.close(); other = await context.new_page(); len(context.pages)") == ["1"]
    await whole_host.execute("await other.close()")
    assert await whole_host.texts("await page.title()") == [
        "The page was closed or has crashed: `page` is now another page of the same browser.",
        "''",
    ]
    assert min(named(folder / "home", "chromium")) == pid


async def test_a_display_that_ended_is_told_of_and_there_again(whole_host, folder):
    assert (await whole_host.client.get("/screen.png")).status_code == 200
    await whole_host.execute("x = 5; pyautogui.position()")
    os.kill(min(named(folder / "home", "Xvnc")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "Xvnc")
    assert texts[0].endswith("Display and browser were started again; windows and pages are closed.")
    assert texts[-1] == "1"
    assert await whole_host.texts("x") == ["5"]
    assert (await whole_host.client.get("/screen.png")).status_code == 200
    assert await whole_host.texts("pyautogui.screenshot().size") == ["(1440, 1000)"]


async def test_a_window_manager_that_ended_is_there_again_and_windows_stay(whole_host, folder):
    await whole_host.execute("await page.goto('data:text/html,<title>kept</title>')")
    before = min(named(folder / "home", "Xvnc"))
    await whole_host.execute("import subprocess; terminal = subprocess.Popen(['xterm'], stderr=-3)")
    os.kill(min(named(folder / "home", "openbox")), signal.SIGKILL)
    texts = await texts_once_noticed(whole_host, "openbox")
    assert texts[0].endswith("It was started again; windows and pages are as they were.")
    assert await whole_host.texts("terminal.poll(), await page.title()") == ["(None, 'kept')"]
    await whole_host.execute("terminal.kill(); terminal.wait()")
    assert min(named(folder / "home", "Xvnc")) == before


async def test_keys_held_by_a_kernel_that_was_killed_are_let_go(whole_host):
    _, outputs = await whole_host.execute("pyautogui.keyDown('shift'); sum(range(10**11))", 1)
    assert "Held keys and buttons were let go (1)." in outputs[-1].text


async def test_playwright_outlives_the_interrupt_of_the_cell_that_first_touched_it(whole_host):
    await whole_host.client.post("/kernels/python/restart")
    status, _ = await whole_host.execute("await page.goto('data:text/html,<title>kept</title>'); time.sleep(60)", 3)
    assert status == "timeout"
    assert await whole_host.texts("await page.title()") == ["'kept'"]


async def test_javascript_has_its_page_after_an_interrupt_in_the_middle_of_loading_playwright(whole_host):
    await whole_host.client.post("/kernels/javascript/restart")
    await whole_host.execute("1", language="javascript")
    status, _ = await whole_host.execute("await page.title(); await new Promise(() => {})", 0.15, "javascript")
    assert status == "timeout"
    status, outputs = await whole_host.execute("await page.evaluate('1 + 1')", language="javascript")
    assert (status, outputs[-1].text) == ("ok", "2")
