"""The browser's windows: each new one is measured once and gets the size its page ought to have.

Flows in: DevTools events, and the wish that pages answer. Flows out: window bounds, so that `innerWidth` x `innerHeight` of a main window is the viewport,
and of a popup what `window.open` asked for. Decided here: what a window's page ought to measure; that a window is touched only
when it is new: a page or a person that resizes it later is not fought; that there is always a page; and when a page hangs:
one that waits for a server does not, and one whose process still stands still when its JavaScript was stopped is closed.

The first guess is right already with the Chromium of Debian 12 and 13 (Preferences hold the bounds), so that main windows
are usually only measured. Chromium makes popups a pixel or two short where the window manager draws the frame.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from cellwright_kernel import sentences
from cellwright_kernel.devtools import Devtools, DevtoolsError, NotAnswered, Refused
from cellwright_kernel.navigation import navigation_of

_BEGINS_S = 2.0
"""How long a new page has to begin."""
_SETTLE_S = 5.0
"""How long a window's bounds may take to rest while its page answers; 0.1 s is usual, and on a machine with four times its work
2 s were too little: popups stayed a pixel short."""
_LOOK_EVERY_S = 0.02
_POPUP_SLACK = 8
"""Pixels. A popup that is further off than this was resized on purpose."""

_ASKED_KEPT = 20
_EMPTY_S = 0.3
"""How long there is no page until one is opened; code that closes its last page usually opens the next itself."""

_ANSWER_S = 1.0
"""A page that computes longer than this when it is asked is stopped; 3 ms are usual."""
_HALTED_S = 0.5
_LAST_S = 2.0
"""What is still silent then is closed: longer than a sound page takes on a machine under load."""
_CLOSED_S = 2.0
_PROMISE = "(async () => 1)()"

_METRICS = """[innerWidth, innerHeight, outerWidth, outerHeight, screenX, screenY,
    !menubar.visible, document.visibilityState == 'visible']"""


@dataclass(frozen=True)
class Metrics:
    """Where a page says it is, in pixels of the screen (the scale is always 1)."""

    inner: tuple[int, int]
    outer: tuple[int, int]
    screen: tuple[int, int]
    popup: bool
    visible: bool

    @property
    def origin(self) -> tuple[int, int]:
        """Where the page's own (0, 0) is on the screen. No window here has a frame of Chromium's own making."""
        return (
            self.screen[0] + (self.outer[0] - self.inner[0]) // 2,
            self.screen[1] + self.outer[1] - self.inner[1],
        )


class Windows:
    """The windows of one browser, seen through one connection."""

    def __init__(self, devtools: Devtools, viewport: tuple[int, int]) -> None:
        self._devtools = devtools
        self._viewport = viewport
        self._seen: set[int] = set()
        self._open: set[str] = set()
        self._asked: dict[str, list[dict[str, int]]] = {}
        self._page_of: dict[str, str] = {}
        self._with_dialog: set[str] = set()
        self._to_free: list[asyncio.Future[list[str]]] = []
        self._waiting: asyncio.Timeout | None = None

    async def follow(self) -> None:
        """Begin to hear of every page, those that exist included.

        Discovered, not auto-attached: with `Target.setAutoAttach`, `window.open` waits for the debugger even when told not to.
        """
        await self._devtools.call("Target.setDiscoverTargets", discover=True, filter=[{"type": "page"}])

    async def next(self) -> Metrics | None:
        """Take one event; return the metrics of a new window once it has its size, or None for other events.

        Raises:
            DevtoolsError: the connection is gone.
        """
        return await self._take(await self._devtools.event())

    async def keep(self) -> None:
        """Take events until the connection is gone; when the last page was closed, open another one."""
        try:
            while True:
                await self._keep_once()
        except DevtoolsError:
            return

    async def free(self) -> list[str]:
        """Have every page answer, or close it; return what to say of each that did not.

        `keep` does it, on the session that it has with each page: a page that is busy heeds no new one, and `Page.crash`
        neither. It must be running, and the wait must have an end.
        """
        loop = asyncio.get_running_loop()
        freed: asyncio.Future[list[str]] = loop.create_future()
        self._to_free.append(freed)
        if self._waiting is not None:
            self._waiting.reschedule(loop.time())
        return await freed

    async def _keep_once(self) -> None:
        limit_s = 0.0 if self._to_free else None if self._open else _EMPTY_S
        try:
            async with asyncio.timeout(limit_s) as self._waiting:
                event = await self._devtools.event()
        except TimeoutError:
            event = None
        finally:
            self._waiting = None
        if event is not None:
            await self._take(event)
        elif self._to_free:
            freed = self._to_free.pop()
            said = await self._freed()
            if not freed.done():  # nobody waits for it any more
                freed.set_result(said)
        else:
            await self._devtools.call("Target.createTarget", url="about:blank")

    async def _freed(self) -> list[str]:
        pages = {
            session: target_id
            for session, target_id in tuple(self._page_of.items())
            if session not in self._with_dialog and not await self._waits_for_server(target_id)
        }
        silent = await self._silent(pages, _ANSWER_S)
        if self._with_dialog:  # that halts all pages of its process, and which these are nobody tells
            return [said for session in silent if (said := await self._told(pages[session], "beside a dialog"))]
        if not silent:
            return []
        # one that a debugger has halted computes what it is asked, and keeps no promise
        halted = await self._devtools.ask_each("Runtime.evaluate", silent, _HALTED_S, expression="1")
        for session in halted:
            await self._resume(session)
        await self._devtools.ask_each("Runtime.terminateExecution", silent - halted.keys(), _ANSWER_S)
        # all are told first: pages of one process halt and compute together
        left: dict[str, sentences.PageLeft] = {page: "resumed" if page in halted else "stopped" for page in silent}
        for session in await self._silent(silent, _LAST_S):
            left[session] = "closed"
        return [said for session, how in left.items() if (said := await self._told(pages[session], how))]

    async def _silent(self, sessions: Collection[str], within_s: float) -> set[str]:
        """Return which of them do not answer; a refusal is an answer: it is on its way to another document, or gone."""
        answered = await self._devtools.ask_each(
            "Runtime.evaluate", sessions, within_s, expression=_PROMISE, awaitPromise=True
        )
        return set(sessions) - answered.keys()

    async def _resume(self, session: str) -> None:
        """Let go of a page that a debugger has halted, and end what it was at; whoever halted it keeps its debugger."""
        with contextlib.suppress(Refused, NotAnswered):  # it was not halted: it computes again, or shows a dialog
            await self._devtools.call("Debugger.enable", session, _ANSWER_S)
            await self._devtools.call("Debugger.resume", session, _ANSWER_S, terminateOnResume=True)
        with contextlib.suppress(Refused, NotAnswered):
            await self._devtools.call("Debugger.disable", session, _ANSWER_S)

    async def _told(self, target_id: str, left: sentences.PageLeft) -> str:
        """Return what to say of a page that did not answer, and close it if nothing else is left; empty when it has gone."""
        try:
            target = await self._devtools.call("Target.getTargetInfo", targetId=target_id)
            if left == "closed" and not await self._closed(target_id):
                left = "there"
        except Refused:
            return ""
        return sentences.page_stood_still(str(target["targetInfo"]["url"]), left)

    async def _closed(self, target_id: str) -> bool:
        """Close a page whose process does not answer: Chromium gives it half a second; return whether it is gone."""
        if self._open <= {target_id}:  # there is always a page
            await self._devtools.call("Target.createTarget", url="about:blank")
        await self._devtools.call("Target.closeTarget", targetId=target_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSED_S):
                while await self._is_there(target_id):  # noqa: ASYNC110 - another process makes it so
                    await asyncio.sleep(_LOOK_EVERY_S)
                return True
        return False

    async def _is_there(self, target_id: str) -> bool:
        targets = (await self._devtools.call("Target.getTargets"))["targetInfos"]
        return any(target["targetId"] == target_id for target in targets)

    async def _waits_for_server(self, target_id: str) -> bool:
        navigation = await navigation_of(self._devtools, target_id)
        return navigation is not None and not navigation.is_answered

    async def _take(self, event: dict[str, Any]) -> Metrics | None:
        details = event["params"]
        match event["method"]:
            case "Target.targetCreated":
                self._open.add(details["targetInfo"]["targetId"])
                return await self._created(details["targetInfo"])
            case "Target.targetDestroyed":
                self._open.discard(details["targetId"])
            case "Target.detachedFromTarget":
                self._asked.pop(self._page_of.pop(details["sessionId"], ""), None)
                self._with_dialog.discard(details["sessionId"])
            case "Page.javascriptDialogOpening":
                self._with_dialog.add(event.get("sessionId", ""))
            case "Page.javascriptDialogClosed":
                self._with_dialog.discard(event.get("sessionId", ""))
            case "Page.windowOpen":
                asked = self._asked.setdefault(self._page_of.get(event.get("sessionId", ""), ""), [])
                asked.append(_sizes(details["windowFeatures"]))
                del asked[:-_ASKED_KEPT]  # what a blocked popup asked for is never collected
        return None

    async def _created(self, target: dict[str, Any]) -> Metrics | None:
        try:
            attached = await self._devtools.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
            session = str(attached["sessionId"])
            self._page_of[session] = target["targetId"]
            # while the page waits for a server it is not answered, but begins, and tells of that
            await self._devtools.call("Page.enable", session, _BEGINS_S)
            window = await self._devtools.call("Browser.getWindowForTarget", targetId=target["targetId"])
            if window["windowId"] in self._seen:
                return None
            self._seen.add(window["windowId"])
            return await self._size(session, window["windowId"], target.get("openerId", ""))
        except (DevtoolsError, TimeoutError):  # the page is gone, is busy or shows a dialog: its window stays as it is
            return None

    async def _size(self, session: str, window_id: int, opener: str) -> Metrics:
        metrics = await self._settled(session, window_id)
        wanted = self._asked_size(metrics, opener) if metrics.popup else self._viewport
        if wanted == metrics.inner:
            return metrics
        bounds = {
            "width": metrics.outer[0] + wanted[0] - metrics.inner[0],
            "height": metrics.outer[1] + wanted[1] - metrics.inner[1],
        }
        await self._devtools.call("Browser.setWindowBounds", windowId=window_id, bounds=bounds)
        async with asyncio.timeout(_SETTLE_S):
            while metrics.inner != wanted:
                await asyncio.sleep(_LOOK_EVERY_S)
                metrics = await measure(self._devtools, session)
        return metrics

    def _asked_size(self, metrics: Metrics, opener: str) -> tuple[int, int]:
        """Return the size that this popup was asked to have, if it is nearly that; else the one it has."""
        width, height = metrics.inner
        for asked in self._asked.get(opener, []):
            wanted = asked.get("width", width), asked.get("height", height)
            if abs(wanted[0] - width) <= _POPUP_SLACK and abs(wanted[1] - height) <= _POPUP_SLACK:
                self._asked[opener].remove(asked)
                return wanted
        return metrics.inner

    async def _settled(self, session: str, window_id: int) -> Metrics:
        """Wait until the page knows its window's bounds, and they have stopped changing."""
        before = None
        async with asyncio.timeout(_SETTLE_S):
            while True:
                metrics = await measure(self._devtools, session)
                bounds = (await self._devtools.call("Browser.getWindowBounds", windowId=window_id))["bounds"]
                now = (metrics, bounds)
                if now == before and metrics.outer == (bounds["width"], bounds["height"]):
                    return metrics
                before = now
                await asyncio.sleep(_LOOK_EVERY_S)


async def measure(devtools: Devtools, session: str) -> Metrics:
    """Ask a page where it is.

    Raises:
        DevtoolsError: it does not answer, or with nonsense.
    """
    answer = await devtools.evaluate(session, _METRICS, within_s=1.0)
    match answer:
        case [int(iw), int(ih), int(ow), int(oh), int(x), int(y), bool(popup), bool(visible)]:
            return Metrics((iw, ih), (ow, oh), (x, y), popup=popup, visible=visible)
        case _:
            raise DevtoolsError(f"The page says of its window: {str(answer)[:100]}")


def _sizes(features: list[str]) -> dict[str, int]:
    """Read `width=600` and its like; what is not a whole number is left out."""
    pairs = (feature.partition("=") for feature in features)
    return {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}
