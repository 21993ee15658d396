"""The page is where the screen says it is: a real display, a real window manager and a real Chromium, without a sandbox around them."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from PIL import Image, ImageChops, ImageGrab
from playwright.async_api import async_playwright
from tests.desktops import running_desktop
from tests.waiting import GUARD_S

from cellwright_kernel.browser import Browser
from cellwright_kernel.desktop import Desktop
from cellwright_kernel.devtools import Devtools
from cellwright_kernel.windows import Metrics, measure
from cellwright_kernel.wire import HostSettings

pytestmark = [pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

_PAGE = """data:text/html,<meta charset=utf-8><title>here</title>
<body style="margin:0;background:linear-gradient(135deg,%23fe8,%2348c);height:2000px">
<h1 style="position:absolute;left:0;top:0">top left</h1>
<p style="position:fixed;right:0;bottom:0;margin:0;background:%23f0f">bottom right</p>"""


LOOKS = round(GUARD_S / 0.05)


class Bench:
    """A desktop with a browser, and a connection of the test's own to it."""

    def __init__(self, desktop: Desktop, browser: Browser, devtools: Devtools) -> None:
        self.desktop = desktop
        self.browser = browser
        self.devtools = devtools

    async def open(self, url: str, **how: object) -> tuple[str, str]:
        target = (await self.devtools.call("Target.createTarget", url=url, **how))["targetId"]
        return target, await self.session(target)

    async def session(self, target: str) -> str:
        attached = await self.devtools.call("Target.attachToTarget", targetId=target, flatten=True)
        return str(attached["sessionId"])

    async def close(self, target: str) -> None:
        await self.devtools.call("Target.closeTarget", targetId=target)

    async def targets(self) -> list[dict[str, str]]:
        found = (await self.devtools.call("Target.getTargets"))["targetInfos"]
        return [target for target in found if target["type"] == "page"]

    async def measured(self, session: str, inner: tuple[int, int]) -> Metrics:
        """Measure until the page has that size, or it never will."""
        metrics = await measure(self.devtools, session)
        for _ in range(LOOKS):
            if metrics.inner == inner and metrics.outer[0] >= inner[0]:  # a window that is being made has no outer size
                break
            await asyncio.sleep(0.05)
            metrics = await measure(self.devtools, session)
        return metrics

    async def outer(self, session: str, wanted: tuple[int, int]) -> tuple[int, int]:
        """Measure until the window has that size, or it never will."""
        for _ in range(LOOKS):
            if (outer := (await measure(self.devtools, session)).outer) == wanted:
                break
            await asyncio.sleep(0.05)
        return outer

    async def everything_seen(self) -> None:
        """Wait until the browser has done what it does about every window until now: it takes them one after another."""
        target, _ = await self.open("about:blank", background=True)  # in front, it would hide what is to be measured
        windows = self.browser._windows
        assert windows is not None
        async with asyncio.timeout(GUARD_S):
            while target not in windows._open:  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0.01)
        await self.close(target)

    async def page_picture(self, session: str) -> Image.Image:
        shot = await self.devtools.call("Page.captureScreenshot", session, format="png")
        return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")

    def screen_picture(self, metrics: Metrics) -> Image.Image:
        left, top = metrics.origin
        screen = ImageGrab.grab(xdisplay=self.desktop.display)
        assert left >= 0
        assert top >= 0
        assert left + metrics.inner[0] <= screen.width
        assert top + metrics.inner[1] <= screen.height
        return screen.crop((left, top, left + metrics.inner[0], top + metrics.inner[1])).convert("RGB")

    async def difference(self, session: str, picture: Image.Image | None = None) -> tuple[int, int, int, int] | None:
        """Where screen and page differ, once they have had time to agree; None when nowhere."""
        box: tuple[int, int, int, int] | None = None
        for _ in range(LOOKS):
            metrics = await measure(self.devtools, session)
            of_page = picture or await self.page_picture(session)
            box = ImageChops.difference(of_page, self.screen_picture(metrics)).getbbox()
            if box is None:
                break
            await asyncio.sleep(0.05)
        return box


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(
    module_home: Path,
    chromium_in: Callable[[Path], str],
    processes_that_name: Callable[[Path], list[str]],
) -> AsyncIterator[Bench]:
    settings = HostSettings(door="fd:3", home=str(module_home), chromium=chromium_in(module_home))
    async with running_desktop(module_home, window_manager=False) as desktop:
        browser = Browser(settings, desktop.display, module_home)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(desktop.start_window_manager())
                group.create_task(browser.start())
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(browser.watch())
                async with Devtools.opened(browser._socket_url) as devtools:
                    yield Bench(desktop, browser, devtools)
                watching.cancel()
        finally:
            await browser.stop()
    assert processes_that_name(module_home) == []


async def test_the_first_page_has_the_viewport_and_is_wholly_on_the_screen(bench: Bench) -> None:
    (first,) = await bench.targets()
    session = await bench.session(first["targetId"])
    metrics = await measure(bench.devtools, session)
    assert metrics == Metrics((1440, 900), (1440, 987), (0, 0), popup=False, visible=True)
    assert await bench.browser.viewport_origin() == (0, 87)


async def test_the_screen_shows_the_pages_own_pixels(bench: Bench) -> None:
    target, session = await bench.open(_PAGE)
    assert await bench.measured(session, (1440, 900)) == Metrics((1440, 900), (1440, 987), (0, 0), False, True)
    assert await bench.difference(session) is None
    await bench.close(target)


async def test_a_new_window_has_the_viewport_too(bench: Bench) -> None:
    target, session = await bench.open(_PAGE, newWindow=True)
    assert await bench.measured(session, (1440, 900)) == Metrics((1440, 900), (1440, 987), (0, 0), False, True)
    assert await bench.difference(session) is None
    await bench.close(target)


@pytest.mark.parametrize("size", [(600, 400), (800, 500), (331, 277)])
async def test_a_popup_has_the_size_that_was_asked_for(bench: Bench, size: tuple[int, int]) -> None:
    opener, session = await bench.open(_PAGE)
    before = {target["targetId"] for target in await bench.targets()}
    features = f"width={size[0]},height={size[1]}"
    opened = f"window.open('about:blank', '', '{features}').document.write('<h1>popup</h1>')"
    await bench.devtools.call("Runtime.evaluate", session, expression=opened, userGesture=True)
    (popup,) = [target for target in await bench.targets() if target["targetId"] not in before]
    popup_session = await bench.session(popup["targetId"])
    metrics = await bench.measured(popup_session, size)
    assert metrics.popup
    assert metrics.inner == size
    assert await bench.difference(popup_session) is None
    await bench.close(popup["targetId"])
    await bench.close(opener)


async def test_a_popup_that_is_resized_is_left_alone(bench: Bench) -> None:
    opener, session = await bench.open(_PAGE)
    before = {target["targetId"] for target in await bench.targets()}
    opened = "popup = window.open('about:blank', '', 'width=600,height=400'); popup.resizeTo(500, 350)"
    await bench.devtools.call("Runtime.evaluate", session, expression=opened, userGesture=True)
    (popup,) = [target for target in await bench.targets() if target["targetId"] not in before]
    popup_session = await bench.session(popup["targetId"])
    assert await bench.outer(popup_session, (500, 350)) == (500, 350)
    await bench.everything_seen()
    assert (await measure(bench.devtools, popup_session)).outer == (500, 350)
    await bench.devtools.call("Runtime.evaluate", session, expression="popup.resizeTo(640, 480)", userGesture=True)
    assert await bench.outer(popup_session, (640, 480)) == (640, 480)
    await bench.everything_seen()
    assert (await measure(bench.devtools, popup_session)).outer == (640, 480)
    await bench.close(popup["targetId"])
    await bench.close(opener)


async def test_playwright_sees_the_same_page_and_leaves_its_size(bench: Bench) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(bench.browser.cdp_url)
        (context,) = browser.contexts
        first = context.pages[0]
        assert first.viewport_size is None
        assert await first.evaluate("[innerWidth, innerHeight]") == [1440, 900]
        page = await context.new_page()
        await page.goto(_PAGE)
        assert page.viewport_size is None
        assert await page.evaluate("[innerWidth, innerHeight, devicePixelRatio]") == [1440, 900, 1]
        of_playwright = Image.open(io.BytesIO(await page.screenshot())).convert("RGB")
        target = next(target for target in await bench.targets() if target["title"] == "here")
        assert await bench.difference(await bench.session(target["targetId"]), of_playwright) is None
        await page.close()
        await browser.close()


async def test_latin_cjk_and_emoji_have_glyphs_of_their_own(bench: Bench) -> None:
    letters = ["\U0010fffd", "ß", "Ж", "漢", "가", "あ", "😀"]  # the first has no glyph in any font
    page = "data:text/html,<meta charset=utf-8><body style='margin:0;font:32px sans-serif'>" + "".join(
        f"<div style='position:absolute;left:{n * 60}px;top:0;width:60px'>{letter}</div>"
        for n, letter in enumerate(letters)
    )
    target, session = await bench.open(page)
    await bench.measured(session, (1440, 900))
    assert await bench.difference(session) is None
    picture = await bench.page_picture(session)
    cells = [picture.crop((n * 60, 0, n * 60 + 60, 60)).tobytes() for n in range(len(letters))]
    assert len(set(cells)) == len(letters)
    assert bytes([255]) * len(cells[0]) not in cells
    await bench.close(target)
