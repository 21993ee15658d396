"""The Python kernel on a real desktop, with the interpreter that sandboxes have: browser, pointer, figures."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.desk import wait_for
from tests.desktops import running_desktop
from tests.python_kernel import PythonKernel, Told, python_kernel
from tests.waiting import GUARD_S

import cellwright_kernel
from cellwright.sandbox.runtime import runtime_folder
from cellwright_kernel import processes
from cellwright_kernel.browser import Browser
from cellwright_kernel.devtools import Devtools
from cellwright_kernel.wire import HostSettings

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

PYTHON = "bin/python"
PACKAGE = {"PYTHONPATH": str(Path(cellwright_kernel.__file__).parents[1])}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(module_home: Path, chromium_in: Callable[[Path], str]) -> AsyncIterator[Browser]:
    """The one browser of these tests; each has a kernel of its own, and that is what they are about."""
    async with running_desktop(module_home) as desktop:
        settings = HostSettings(door="fd:3", home=str(module_home), chromium=chromium_in(module_home))
        started = Browser(settings, desktop.display, module_home)
        try:
            await started.start()
            yield started
        finally:
            await started.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def browser(chromium: Browser) -> Browser:
    """Give a test the browser as if it had just started: with one empty page."""
    async with Devtools.opened(chromium._socket_url) as devtools:
        before = await pages_of(devtools)
        await devtools.call("Target.createTarget", url="about:blank")
        for page in before:
            await devtools.call("Target.closeTarget", targetId=page)
        async with asyncio.timeout(GUARD_S):
            while len(await pages_of(devtools)) > 1:
                pass
    return chromium


async def pages_of(devtools: Devtools) -> list[str]:
    found = await devtools.call("Target.getTargets")
    return [target["targetId"] for target in found["targetInfos"] if target["type"] == "page"]


class Cells:
    """A kernel whose cells are awaited, so that the browser's owner can act meanwhile."""

    def __init__(self, kernel: PythonKernel) -> None:
        self.kernel = kernel

    async def run(self, code: str) -> Told:
        return await asyncio.to_thread(self.kernel.run, code)

    async def interrupt_when_running(self, code: str) -> Told:
        return await asyncio.to_thread(self.kernel.interrupt_when_running, code)

    async def interrupt_at_on(self, code: str) -> Told:
        return await asyncio.to_thread(self.kernel.interrupt_at_on, code)


@pytest_asyncio.fixture(loop_scope="module")
async def cells(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cells]:
    environment = PACKAGE | {"DISPLAY": browser._environment["DISPLAY"], "CELLWRIGHT_CDP": browser.cdp_url}
    with python_kernel(tmp_path_factory.mktemp("k"), environment, runtime_folder() / PYTHON) as kernel:
        yield Cells(kernel)
        drivers = drivers_of(kernel.process.pid)
    assert await asyncio.to_thread(wait_for, lambda: not any(map(processes.is_alive, drivers))), (
        "Playwright's driver was left behind"
    )


def drivers_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"run-driver" in Path(f"/proc/{child}/cmdline").read_bytes()]


async def test_the_browser_is_there_once_it_is_named(cells):
    assert (await cells.run("'browser' in globals()")).outputs == [("result", "False")]
    assert drivers_of(cells.kernel.process.pid) == []
    told = await cells.run("await page.goto('data:text/html,<title>hello</title>')\nawait page.title()")
    assert told.outputs == [("result", "'hello'")]
    told = await cells.run(
        "await page.evaluate('[innerWidth, innerHeight]'), page in context.pages, context in browser.contexts"
    )
    assert told.outputs == [("result", "([1440, 900], True, True)")]


async def test_asyncio_run_may_use_the_page(cells):
    await cells.run("await page.goto('data:text/html,<title>hello</title>')")
    told = await cells.run(
        "import asyncio\nasync def main():\n    return await page.title()\nprint(asyncio.run(main()))"
    )
    assert told.outputs == [("stdout", "hello\n")]


async def test_an_interrupt_stops_a_wait_for_the_page_and_the_page_lives(cells):
    await cells.run("await page.title();")
    told = await cells.interrupt_when_running("await page.wait_for_selector('#never')")
    assert told.reply["ename"] == "KeyboardInterrupt"
    (driver,) = drivers_of(cells.kernel.process.pid)
    assert os.getpgid(driver) == driver, "the driver has a process group of its own"
    assert (await cells.run("await page.title()")).outputs == [("result", "''")]


async def test_an_interrupt_stops_a_listener_and_the_page_lives(cells):
    await cells.run("def spin(message):\n    log('on')\n    while True: pass\npage.on('console', spin)")
    told = await cells.interrupt_at_on("await page.evaluate('console.log(1)')\nawait page.wait_for_selector('#never')")
    assert told.reply["ename"] == "KeyboardInterrupt"
    await cells.run("page.remove_listener('console', spin)")
    assert (await cells.run("await page.evaluate('1 + 1')")).outputs == [("result", "2")]


async def test_another_page_takes_the_place_of_one_that_was_closed_or_crashed(cells):
    await cells.run("other = await context.new_page(); await page.close()")
    told = await cells.run("page is other")
    assert [kind for kind, _ in told.outputs] == ["notice", "result"]
    assert told.outputs[1] == ("result", "True")
    await cells.run("import asyncio; crashed = asyncio.Event(); page.on('crash', lambda _: crashed.set())")
    told = await cells.run(
        "try: await page.goto('chrome://crash')\nexcept Exception: await crashed.wait(); log('crashed')"
    )
    assert told.outputs == [("log", "crashed")]
    told = await cells.run("await page.evaluate('1 + 1')")
    assert [kind for kind, _ in told.outputs] == ["notice", "result"]


async def test_a_page_of_the_models_own_is_left_alone_and_not_told_of(cells):
    await cells.run("old = page; page = await context.new_page(); await old.close()")
    assert (await cells.run("len(context.pages), page.is_closed()")).outputs == [("result", "(1, False)")]


async def test_objects_are_new_after_chromium_was_started_again(cells, browser):
    await cells.run("old = page; await page.title();")
    assert browser.pid is not None
    os.kill(browser.pid, signal.SIGKILL)
    await browser.watch()
    await browser.restart()
    told = await cells.run("await page.title(), page is old")
    assert told.outputs[0] == (
        "notice",
        "The browser was closed or restarted: `browser`, `context` and `page` are new objects.",
    )
    assert told.outputs[1] == ("result", "('', False)")


async def test_a_cell_that_begins_as_chromium_dies_works_on_the_next_one(cells, browser):
    """The kernel alone: nobody holds the cell back until the new one is up."""
    await cells.run("await page.title();")
    assert browser.pid is not None
    os.kill(browser.pid, signal.SIGKILL)
    async with asyncio.TaskGroup() as group:
        group.create_task(browser.restart())
        told = await cells.run("await page.evaluate('1 + 1')")
    assert told.outputs == [
        ("notice", "The browser was closed or restarted: `browser`, `context` and `page` are new objects."),
        ("result", "2"),
    ]


async def test_a_dialog_nobody_listens_for_is_dismissed_and_told(cells):
    await cells.run("await page.title();")
    told = await cells.run("await page.evaluate('confirm(\"pay?\")')")
    assert told.outputs[0][0] == "notice"
    assert "'pay?'" in told.outputs[0][1]
    assert told.outputs[1] == ("result", "False")
    told = await cells.run("page.on('dialog', lambda d: d.accept())\nawait page.evaluate('confirm(\"pay?\")')")
    assert told.outputs == [("result", "True")]


async def test_what_a_pages_event_prints_belongs_to_the_cell_that_runs(cells):
    await cells.run("page.on('console', lambda message: print('console:', message.text))")
    told = await cells.run("await page.evaluate('console.log(7)')")
    assert (told.outputs, told.late) == ([("stdout", "console: 7\n")], [])


async def test_the_sync_api_is_answered_with_the_async_form(cells):
    told = await cells.run("from playwright.sync_api import sync_playwright\np = sync_playwright().start()")
    assert told.status == "error"
    assert "await page.goto(url)" in told.outputs[0][1].splitlines()[-1]


async def test_names_that_the_model_gave_another_meaning_keep_it(cells):
    await cells.run("page = 'mine'")
    assert (await cells.run("page, type(browser).__name__")).outputs == [("result", "('mine', 'Browser')")]
    assert (await cells.run("page")).outputs == [("result", "'mine'")]


async def test_pyautogui_is_there_by_name_and_by_import(cells):
    assert (await cells.run("tuple(pyautogui.size())")).outputs == [("result", "(1440, 1000)")]
    assert (await cells.run("import pyautogui as p; p is pyautogui")).outputs == [("result", "True")]
    assert (await cells.run("display(pyautogui.screenshot())")).outputs == [("image/png", (1440, 1000))]


@pytest.fixture(scope="module")
def plotting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k"), PACKAGE, runtime_folder() / PYTHON) as kernel:
        kernel.run("import matplotlib.pyplot as plt")
        yield kernel


def kinds(told: Told) -> list[str]:
    return [kind for kind, _ in told.outputs]


async def test_a_figure_as_last_expression_is_shown_once(plotting):
    assert kinds(plotting.run("fig, ax = plt.subplots(); fig")) == ["image/png"]
    assert kinds(plotting.run("display(plt.figure())")) == ["image/png"]


async def test_show_shows_each_open_figure_once_with_any_backend_without_windows(plotting):
    assert kinds(plotting.run("plt.plot([1, 2]); plt.show()")) == ["image/png"]
    told = plotting.run(
        "import matplotlib; matplotlib.use('Agg')\nplt.plot([1, 2]); plt.figure(); plt.plot([1]); plt.show()"
    )
    assert kinds(told) == ["image/png", "image/png"]


async def test_a_figure_left_open_is_shown_at_the_cells_end_and_not_in_the_next(plotting):
    assert kinds(plotting.run("plt.plot([1, 2]);")) == ["image/png"]
    assert kinds(plotting.run("1;")) == []
    assert kinds(plotting.run("plt.plot([1, 2])\n1 / 0")) == ["image/png", "error"]


async def test_a_table_is_shown_as_text(plotting):
    assert plotting.run("import pandas as pd\npd.DataFrame({'a': [1, 2]})").outputs == [("result", "   a\n0  1\n1  2")]


async def test_arrays_in_the_shape_of_a_picture_are_pictures(plotting):
    told = plotting.run(
        "import numpy as np\ndisplay(np.zeros((4, 5, 3), 'uint8')); display(np.zeros(3)); np.zeros((2, 2), 'uint8')"
    )
    assert kinds(told) == ["image/png", "display", "result"]
    assert told.outputs[0][1] == (5, 4)
