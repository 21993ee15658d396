"""`ui` as the Python kernel offers it.

Flows in: the kernel's display and its Playwright objects. Flows out: one `Ui`. Decided here: pages are read through the
Playwright of this kernel, in its own event loop; what waits does so like `screen`: while a cell's own code waits, the
loop goes on; how long a page has for an answer; how often is looked again by who waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from cellwright_kernel.python.asyncio_run import lets_loop_go_on
from cellwright_kernel.python.silent_pages import awaited_by
from cellwright_kernel.screen.loop_thread import LoopThread
from cellwright_kernel.screen.screen import blocking, limit_of
from cellwright_kernel.ui.elements import Element, Found, Tree, is_window
from cellwright_kernel.ui.looking import Looking
from cellwright_kernel.ui.pages import FRAME, MEASURE

if TYPE_CHECKING:
    from playwright.async_api import Browser, Frame, Page

_MEASURE_S: Final = 2.0
_SNAPSHOT_S: Final = 5.0
_FRAME_S: Final = 1.0
_FRAMES: Final = 30
_PAGES: Final = 50
_AGAIN_S: Final = 0.1
_GRACE_S: Final = 30.0
"""What a look may take in a thread, where only its end can be waited for."""
_LATE: Final = "did not answer within {:g} s: {}. Its elements are not listed."
_SILENT: Final = "it is very large, computes, or shows a dialog"
_FRAME_SILENT: Final = (
    "The page {} has a frame that does not answer, {}: it computes, or its process is stopped. Only the page's own elements are "
    "listed, and none of its frames'."
)
_LOADING: Final = "it is still loading {}, whose server has not answered yet"
_NO_BROWSER: Final = "Pages are not listed: the browser cannot be reached. Name `page` in a cell to connect anew."

_T = TypeVar("_T")


class Ui:
    """What stands on the screen, by role and name: tree(), find(), wait().

    One list over pages and native programs; all boxes are in pixels of the screen.

    Args:
        browser: Returns Playwright's browser as it is connected now; None when it is not.
    """

    def __init__(self, browser: Callable[[], Browser | None]) -> None:
        self._browser = browser
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread("ui")
        self._looking = Looking(os.environ["DISPLAY"])

    def __repr__(self) -> str:
        return "<ui: tree, find, wait>"

    def tree(self, window: str | None = None) -> Tree:
        """Return all windows with what is in them; its text is an outline, one line an element.

        Args:
            window: Only windows with this in their title.

        Raises:
            LookupError: there is no such window; with those there are.
        """
        return self._do(self._look()).of_window(_text(window, "window"))

    def find(
        self, role: str | None = None, name: str | None = None, *, exact: bool = False, window: str | None = None
    ) -> Found:
        """Return the elements with this role and name; asked for one when there is none, the list says what there is.

        Args:
            role: Such as `button`, `textbox`, `window`; AT-SPI's words are understood too.
            name: What stands in its name; case makes no difference.
            exact: True: its whole name.
            window: Only within windows with this in their title.

        Raises:
            LookupError: nothing was found, but not all was read (a page or program did not answer, or has too many
                elements), so that it may be there; with what was not read. `wait` asks again.
        """
        _text(role, "role"), _text(name, "name"), _text(window, "window")
        tree = self._do(self._look(is_for_windows=is_window(role)))
        return tree.find(role, name, exact=exact, window=window).certain()

    def wait(
        self,
        role: str | None = None,
        name: str | None = None,
        timeout: float = 10.0,
        *,
        exact: bool = False,
        window: str | None = None,
    ) -> Element:
        """Wait until there is such an element, and return the first.

        Args:
            role: As for `find`; `window` for a window of any program.
            name: As for `find`.
            timeout: Seconds.
            exact: As for `find`.
            window: As for `find`; it need not be there yet.

        Raises:
            TimeoutError: it did not come; with what there is, and what could not be read.
        """
        _text(role, "role"), _text(name, "name"), _text(window, "window")
        limit_s = limit_of(timeout)
        return self._do(self._until_there(role, name, limit_s, exact=exact, window=window), limit_s)

    def _do(self, work: Coroutine[Any, Any, _T], limit_s: float = 0.0) -> _T:
        if lets_loop_go_on():
            return asyncio.run(work)
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # a thread
            return blocking(asyncio.run_coroutine_threadsafe(work, self._loop), limit_s + _GRACE_S)
        work.close()
        raise RuntimeError(
            "`ui` needs the kernel's event loop, which runs this code itself. In a background task or a callback use "
            "`await asyncio.to_thread(ui.tree)`."
        )

    async def _look(self, *, is_for_windows: bool = False) -> Tree:
        pages = [] if is_for_windows else await self._pages()
        looking = self._looking.look(pages, is_for_windows=is_for_windows)
        return await asyncio.wrap_future(self._thread.submit(looking))

    async def _until_there(
        self, role: str | None, name: str | None, limit_s: float, *, exact: bool, window: str | None
    ) -> Element:
        began = time.monotonic()
        while True:
            asked = time.monotonic()
            tree = await self._look(is_for_windows=is_window(role))
            found = tree.find(role, name, exact=exact, window=window)
            if found:
                return found[0]
            now = time.monotonic()
            if now - began >= limit_s:
                raise TimeoutError(f"It did not come within {limit_s:g} s. {found.missing}")
            await asyncio.sleep(min(max(_AGAIN_S, now - asked), max(0.0, began + limit_s - now)))

    async def _pages(self) -> list[dict[str, Any]]:
        browser = self._browser()
        if "CELLWRIGHT_CDP" not in os.environ:
            return []
        if browser is None or not browser.is_connected():
            return [{"problem": _NO_BROWSER}]
        pages = [page for context in browser.contexts for page in context.pages]
        pages = [page for page in pages[:_PAGES] if not page.is_closed()]
        raws = await asyncio.gather(*(_answer(page, _measured(page), _MEASURE_S) for page in pages))
        in_sight = await asyncio.wrap_future(self._thread.submit(self._looking.in_sight(raws)))
        seen = [page for page, is_seen in zip(pages, in_sight, strict=True) if is_seen]
        more = iter(await asyncio.gather(*(_answer(page, _read(page), _SNAPSHOT_S) for page in seen)))
        return [raw | next(more) if is_seen else raw for raw, is_seen in zip(raws, in_sight, strict=True)]


async def _answer(page: Page, asked: Coroutine[Any, Any, dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Return what a page says, in the form that `PageReader` takes; never raises for what a page does."""
    try:
        return await asked
    except Exception as error:
        why = f"was not read: {str(error).partition(chr(10))[0]}"
        if _is_late(error):
            why = _LATE.format(limit_s, await _why_late(page))
        return {"url": page.url, "problem": f"The page {page.url} {why}"}


def _is_late(error: Exception) -> bool:
    return type(error).__name__ == "TimeoutError"  # Playwright's own is of another type


async def _why_late(page: Page) -> str:
    with contextlib.suppress(_playwrights_error()):  # what is usual is said then
        if (awaited := await awaited_by(page)) is not None:
            return _LOADING.format(awaited)
    return _SILENT


async def _measured(page: Page) -> dict[str, Any]:
    async with asyncio.timeout(_MEASURE_S):
        return {"url": page.url, "measure": await page.evaluate(MEASURE)}


async def _read(page: Page) -> dict[str, Any]:
    try:
        snapshot = await _snapshot(page, "ai", _SNAPSHOT_S)
    except Exception as error:
        silent = await _silent_frame(page) if _is_late(error) else None
        if silent is None:
            raise
        own = await _snapshot(page, "default", _MEASURE_S)  # without frames
        return {"snapshot": own, "frames": {}, "left_out": _FRAME_SILENT.format(page.url, silent)}
    refs = list(_frames_in(snapshot))[:_FRAMES]
    places = await asyncio.gather(*(_frame(page, ref) for ref in refs))
    return {"snapshot": snapshot, "frames": dict(zip(refs, places, strict=True))}


async def _snapshot(page: Page, mode: Literal["ai", "default"], limit_s: float) -> Any:
    """Playwright offers the snapshot as JSON in JavaScript only; its message is the same in both languages."""
    channel = page.main_frame._impl_obj._channel
    async with asyncio.timeout(limit_s):
        answer = await channel.ariaSnapshotJSON(
            mode=mode, selector=None, depth=None, boxes=True, timeout=limit_s * 1000
        )
    return answer["snapshot"]


async def _silent_frame(page: Page) -> str | None:
    """Return the address of the first frame in a page that does not answer."""
    frames = [frame for frame in page.frames if frame != page.main_frame][:_FRAMES]
    answers = await asyncio.gather(*map(_is_silent, frames))
    return next((frame.url for frame, is_silent in zip(frames, answers, strict=True) if is_silent), None)


async def _is_silent(frame: Frame) -> bool:
    with contextlib.suppress(_playwrights_error()):  # it has gone meanwhile
        try:
            async with asyncio.timeout(_FRAME_S):
                await frame.evaluate("1")
        except TimeoutError:
            return True
    return False


async def _frame(page: Page, ref: str) -> Any:
    try:
        async with asyncio.timeout(_FRAME_S):
            return await page.locator(f"aria-ref={ref}").evaluate(FRAME)
    except Exception:  # it has gone meanwhile, or does not answer
        return None


def _playwrights_error() -> type[Exception]:
    """Playwright's, which is not imported before there is a page of its."""
    from playwright.async_api import Error

    return Error


def _frames_in(nodes: Any) -> Iterator[str]:
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict):
            if node.get("role") == "iframe" and node.get("children") and "ref" in node:
                yield str(node["ref"])
            yield from _frames_in(node.get("children"))


def _text(said: str | None, what: str) -> str | None:
    if said is not None and not isinstance(said, str):
        raise TypeError(f"{what} is a text, such as 'OK'; it was {said!r}.")
    return said
