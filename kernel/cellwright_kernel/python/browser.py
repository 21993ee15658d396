"""Playwright's `browser`, `context` and `page` on the desktop's own Chromium, from the first cell that names them.

Flows in: the address of Chromium's DevTools (`CELLWRIGHT_CDP`). Flows out: the three objects of Playwright's async API,
as they are now, and a sentence when they are not the ones the model had. Decided here: when they are made, namely not
before they are named, because Playwright's driver is a Node process of 124 MB; how it is known that they are alive;
that nothing is emulated, so that a page has the size of its window; and what happens to a dialog that no listener of
the model answers: it is dismissed, and that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cellwright_kernel import javascript, repeatable
from cellwright_kernel.devtools_http import told
from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.python.open_dialogs import OpenDialogs
from cellwright_kernel.python.origin import current_origin
from cellwright_kernel.python.silent_pages import silent_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from playwright.async_api import Browser, BrowserContext, CDPSession, Dialog, Page, Playwright

_CONNECT_MS = 13_000
"""Of these, 3 s are for pages that do not answer."""
_ALIVE_S = 5.0
"""The end of the wait for a sign of life before anything was asked of it: it may still be starting."""
_ANSWER_MS = 2_000
"""The end of the wait for a sign of life. 1 ms is usual; a page that computes or shows a dialog does not lengthen it."""
_CRASHING_S = 0.3
"""How long a page has to answer that Chromium itself thinks alive; 1 ms is usual, and 50 to tell that it crashed. It has it once."""
PAGES_S = 3.0
"""How long Playwright waits for pages when it connects, as `patient.cjs` has it."""
_RESTART_S = 5.0
_HANG_UP_S = 1.0
_TRY_EVERY_S = 0.1
_IN_DRIVER = tuple(Path(javascript.__file__).with_name(name) for name in ("compact.cjs", "patient.cjs"))
"""What Playwright's driver loads before anything else."""
_NEW_BROWSER = "The browser was closed or restarted: `browser`, `context` and `page` are new objects."
_NEW_PAGE = "The page was closed or has crashed: `page` is now another page of the same browser."


class BrowserHangs(Exception):
    """Chromium has not answered in time; it may yet."""

    def __init__(self, waited_ms: int) -> None:
        super().__init__(f"it did not answer within {waited_ms / 1000:g} s")


@dataclass(frozen=True, slots=True)
class Attached:
    """The three objects."""

    browser: Browser
    session: CDPSession
    """The browser's own, to ask for a sign of life."""
    context: BrowserContext
    page: Page


class BrowserLink:
    """The kernel's connection to Chromium.

    Args:
        say: Tells the model a sentence.
    """

    def __init__(self, say: Callable[[str], None], after_import: AfterImport, real_stderr: int) -> None:
        self._say = say
        self._playwright: Playwright | None = None
        self._attached: Attached | None = None
        self._crashed: set[Page] = set()
        self._asking: asyncio.Future[str] | None = None
        self._is_new = False
        self.is_kept = False
        """Whether cells that do not name the objects get living ones too: a function of an earlier cell may use them. Not
        before they were named, and not after they could not be made for such a cell, or the browser kept silent: it would
        again."""
        self.dialogs = OpenDialogs(say)
        self.real_stderr = real_stderr
        after_import.do("playwright._impl.transport", self._keep_driver_apart)

    @property
    def browser(self) -> Browser | None:
        """Playwright's browser as it was last seen alive; None before a cell needed it."""
        return self._attached.browser if self._attached else None

    async def objects(self, *, is_named: bool, page_is_ours: bool = True) -> Attached:
        """The three objects, alive.

        Args:
            is_named: Whether the cell names one of them. Then Chromium is asked for a sign of life; else it costs
                nothing as long as they look alive, and Chromium is not waited for.
            page_is_ours: False when the model has put something of its own in `page`: then no other page is told of.

        Raises:
            BrowserHangs: Chromium is there, and does not answer.
            playwright.async_api.Error: It is not there.
            KeyError: There is no browser on this desktop.
        """
        self.is_kept = is_named
        had = self._attached
        try:
            if had is None:
                attached = await self._connect(wait_s=0)
            elif self._looks_alive(had) and not is_named:
                attached = had
            else:
                attached = await self._living(had, page_is_ours=page_is_ours, wait_s=_RESTART_S if is_named else 0)
        except BrowserHangs:
            self.is_kept = False
            raise
        self._attached, self.is_kept = attached, True
        return attached

    def _looks_alive(self, had: Attached) -> bool:
        return had.browser.is_connected() and not (had.page.is_closed() or had.page in self._crashed)

    async def _living(self, had: Attached, *, page_is_ours: bool, wait_s: float) -> Attached:
        """The same objects if they are alive, else others, and say so."""
        attached = None
        self._ask(had.page)
        if await _answers(had):
            await self._is_asked()
            if self._looks_alive(had):
                return had
            attached = await self._with_living_page(had)
        if attached is None:
            attached = await self._connect(wait_s)
            self._say(_NEW_BROWSER)
        elif page_is_ours:
            self._say(_NEW_PAGE)
        return attached

    def _ask(self, page: Page) -> None:
        """Ask the page itself, unless it still owes an answer: of one that is just crashing, Chromium tells only then."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(page.title())
            self._asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
            self._is_new = True

    async def _is_asked(self) -> None:
        if self._asking is not None and self._is_new:
            await asyncio.wait({self._asking}, timeout=_CRASHING_S)
            self._is_new = False

    async def _with_living_page(self, had: Attached) -> Attached | None:
        """None when the browser has gone as well."""
        try:
            return replace(had, page=await self._living_page(had.context))
        except Exception:
            return None

    async def _connect(self, wait_s: float) -> Attached:
        """Connect, once more until `wait_s` seconds are over: where Chromium is being started again, that takes a moment."""
        if self._playwright is None:
            self._playwright = await _started()
        await _require_sign_of_life()
        end = time.monotonic() + wait_s
        while True:
            try:
                return await self._connect_once(self._playwright)
            except _errors().TimeoutError as error:
                raise BrowserHangs(_CONNECT_MS) from error
            except _errors().Error:
                if time.monotonic() >= end:
                    raise
                await asyncio.sleep(_TRY_EVERY_S)

    async def _connect_once(self, playwright: Playwright) -> Attached:
        began = time.monotonic()
        browser = await playwright.chromium.connect_over_cdp(
            os.environ["CELLWRIGHT_CDP"], timeout=_CONNECT_MS, artifacts_dir=os.environ.get("CELLWRIGHT_DOWNLOADS")
        )
        try:
            session = await browser.new_browser_cdp_session()
            context = browser.contexts[0]
            self._crashed.clear()
            page = await self._living_page(context)
            self.dialogs.watch(context)
            context.on("dialog", self._on_dialog)
            if repeatable.is_on():
                await _still(context)
            if time.monotonic() - began >= PAGES_S:
                await self._tell_silent(page)
        except BaseException:
            await _hang_up(browser)  # the next try makes another one; this one would stay as long as the kernel
            raise
        return Attached(browser, session, context, page)

    async def _tell_silent(self, page: Page) -> None:
        try:
            for sentence in await silent_pages(page):
                self._say(sentence)
        except _errors().Error:  # it goes without saying: the pages that answer are there
            return

    async def _living_page(self, context: BrowserContext) -> Page:
        living = [page for page in context.pages if not page.is_closed() and page not in self._crashed]
        page = living[0] if living else await context.new_page()
        page.on("crash", self._on_crash)
        return page

    def _on_crash(self, page: Page) -> None:  # Playwright can't take a built-in method such as `set.add`
        self._crashed.add(page)

    def _on_dialog(self, dialog: Dialog) -> Coroutine[Any, Any, None] | None:
        """Answer a dialog that nobody of this kernel listens for, and only while a cell of it runs.

        The other language's kernel sees the same dialog, and its cell may answer it. The look comes before the first wait:
        a listener that is called once is gone after it.
        """
        page, origin = dialog.page, current_origin()
        if (page is not None and page._impl_obj.listeners("dialog")) or origin is None or not origin.running:
            return None
        return self._dismiss(dialog)

    async def _dismiss(self, dialog: Dialog) -> None:
        """Do what Playwright does with a dialog that nobody listens for, and say it."""
        try:
            if dialog.type == "beforeunload":
                await dialog.accept()
                return
            await dialog.dismiss()
        except Exception:  # somebody else has answered it
            return
        self._say(
            f"{'An' if dialog.type == 'alert' else 'A'} {dialog.type}() dialog of the page was dismissed: {dialog.message!r}. "
            "To answer one yourself, register page.on('dialog', handler) before it opens."
        )

    def _keep_driver_apart(self, transport: ModuleType) -> None:
        """Start Playwright's driver in a session of its own, where no interrupt for the cell reaches it."""
        transport.asyncio = _AsyncioForDriver(self.real_stderr)  # type: ignore[attr-defined]


async def _require_sign_of_life() -> None:
    """Ask Chromium anything before Playwright does, which would wait much longer; why it cannot connect, that says itself."""
    try:
        await asyncio.to_thread(told, os.environ["CELLWRIGHT_CDP"], "/json/version", _ALIVE_S)
    except (OSError, ValueError) as error:
        if isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError):
            raise BrowserHangs(round(_ALIVE_S * 1000)) from error


async def _still(context: BrowserContext) -> None:
    """Ask pages, also those to come, to leave out motion. Chromium has a flag for that, and Playwright tells pages otherwise."""

    async def ask(page: Page) -> None:
        with contextlib.suppress(_errors().Error):  # it has been closed
            await page.emulate_media(reduced_motion="reduce")

    for page in context.pages:
        await ask(page)
    context.on("page", ask)


async def _hang_up(browser: Browser) -> None:
    """Close the connection alone: Chromium itself goes on."""
    with contextlib.suppress(Exception):  # whoever waits is told why it could not be made, not this
        async with asyncio.timeout(_HANG_UP_S):
            await browser.close()


async def _answers(had: Attached) -> bool:
    """Whether Chromium gives a sign of life: one that was killed a moment ago still counts as connected."""
    if not had.browser.is_connected():
        return False
    try:
        await had.session.send("Browser.getVersion", timeout=_ANSWER_MS)
    except _errors().TimeoutError as error:
        raise BrowserHangs(_ANSWER_MS) from error
    except _errors().Error:
        return False
    return True


def _errors() -> ModuleType:
    """Playwright's, which is not imported before it is needed."""
    return importlib.import_module("playwright.async_api")


async def _started() -> Playwright:
    """Start Playwright, such that a listener of the model's can be interrupted without its connection being lost."""
    from playwright.async_api import async_playwright

    manager = async_playwright()
    playwright = await manager.start()
    transport: Any = manager._client._transport  # type: ignore[union-attr]
    dispatch = transport.on_message

    def on_message(message: object) -> None:
        try:
            dispatch(message)
        except KeyboardInterrupt:  # told by whoever raised it; it would end the task that reads what the driver says
            return

    transport.on_message = on_message
    return playwright


class _AsyncioForDriver:
    """asyncio as the driver's transport sees it: the driver holds none of a cell's pipes open."""

    def __init__(self, stderr: int) -> None:
        self._stderr = stderr

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def create_subprocess_exec(self, node: str, *rest: str, **options: Any) -> asyncio.subprocess.Process:
        options |= {"start_new_session": True, "stderr": self._stderr}
        ours = [part for file in _IN_DRIVER for part in ("--require", str(file))]
        return await asyncio.create_subprocess_exec(node, *ours, *rest, **options)
