"""Looks on at all that a browser loads.

Flows in: events of its pages, frames and workers. Flows out: exchanges with their bodies. Decided here: that nothing is held on
its way: Chromium keeps what has come, and is asked for it afterwards; that a new page, which waits until it is looked at,
goes on in the same breath; how much is asked for at once, and of one cell.

Chromium could also hold each response for us (`Fetch` at the browser as a whole, without attaching to anything). Then a page
that comes in pieces comes at once at its end: measured, its first script ran after 546 ms in place of 44. This way a page of
60 scripts took 743 ms in place of 692, on two processors that had other work too, and a popup 101 in place of 88. What is large costs
more: 4 MB took 104 ms in place of 47 to load, and 508 in place of 286 to send.

A page waits only until some calls were written to a socket, which is done where its coming is heard of. Chromium does not let
go of a page that waits when the connection ends, or the attaching (measured: `window.open` did not return for as long as
was looked). So whoever has begun to look goes on to attach until the browser ends, also when nobody listens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from cellwright_kernel.devtools import DevtoolsError
from cellwright_kernel.informant.exchanges import Exchanges, Loading, response_body
from cellwright_kernel.informant.pipe import Event, Pipe
from cellwright_kernel.wire_https import BODY_BYTES, HttpsBody, HttpsExchanged

EXCHANGES: Final = 1000
"""Most that are told of one cell, or of the time between two; as many as the outside records."""
CELL_BYTES: Final = 96 * 1024**2
"""Most bytes of responses that are told of one cell."""
_AT_ONCE: Final = 8
_LARGE_BYTES: Final = 512 * 1024
"""Bodies from here on are asked for one at a time: of 8 MiB there are 40 here while it passes."""
_BODY_S: Final = 5.0
"""A page that computes gives no body meanwhile."""
_ENABLED_S: Final = 2.0
_WIRE_S: Final = 0.5
"""For what stood on the wire, where it is told last; cookies are only there."""
_HELD_BYTES: Final = 24 * 1024**2
"""What Chromium holds of one page, at each of two places; what is older is gone when it is asked for, which is at once."""
_TYPES: Final = ("page", "iframe", "worker", "shared_worker", "service_worker")
_ATTACH: Final[dict[str, Any]] = {
    "autoAttach": True,
    "waitForDebuggerOnStart": True,
    "flatten": True,
    "filter": [*({"type": kind, "exclude": False} for kind in _TYPES), {"exclude": True}],
}


class Recording:
    """The recording of one browser.

    Args:
        pipe: To its DevTools.
        exchanges: What is made of its events.
        tell: Is given each exchange; what it returns is not looked at.
    """

    def __init__(self, pipe: Pipe, exchanges: Exchanges, tell: Callable[[HttpsExchanged], object]) -> None:
        self._pipe = pipe
        self._exchanges = exchanges
        self._tell = tell
        self._sessions: set[str] = set()
        self._is_muted = False
        self._enabling: set[asyncio.Future[Event]] = set()
        self._asking: set[asyncio.Task[None]] = set()  # ended in `stop`
        self._has_moved = asyncio.Event()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._turns_of_large = asyncio.Semaphore(1)
        self._cell: int | None = None
        self._told = self._bytes = 0
        self.missed = 0
        """Exchanges that were not told since there were too many."""

    async def begin(self) -> None:
        """Look at every page there is, and at those to come.

        Raises:
            DevtoolsError: Chromium does not answer.
        """
        await self._pipe.call("Target.setAutoAttach", within_s=_BODY_S, **_ATTACH)
        if self._enabling:
            await asyncio.wait(self._enabling, timeout=_ENABLED_S)
        self._enabling.clear()

    def take(self, event: Event) -> None:
        """Take an event."""
        method, said = event["method"], event["params"]
        if method == "Target.attachedToTarget":
            self._look_at(said["sessionId"])
        elif method == "Target.detachedFromTarget":
            self._sessions.discard(said["sessionId"])
            self._exchanges.gone(said["sessionId"])
            self._has_moved.set()
        elif method.startswith("Network.") and not self._is_muted:
            if loading := self._exchanges.take(event.get("sessionId", ""), method, said):
                task = asyncio.ensure_future(self._told_of(loading))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            self._has_moved.set()

    async def settle(self, within_s: float) -> None:
        """Tell what has ended, or does so soon, and what has only begun."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._exchanges.is_answered:
                    self._has_moved.clear()
                    await self._has_moved.wait()
        if self._asking:
            await asyncio.wait(self._asking, timeout=within_s)
        for loading in self._exchanges.unfinished():
            self._tell_all(loading, HttpsBody(size_bytes=loading.size_bytes), is_text=False)

    def mute(self) -> None:
        """Tell nothing any more; pages that come go on all the same."""
        self._is_muted = True
        for session in self._sessions:
            self._pipe.tell("Network.disable", session)

    async def stop(self) -> None:
        """Ask for nothing any more."""
        asking = tuple(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _look_at(self, session: str) -> None:
        # none of them is waited for: a page that waits for a debugger answers the first only after the last
        self._sessions.add(session)
        if not self._is_muted:
            held: dict[str, Any] = {"maxTotalBufferSize": _HELD_BYTES, "maxResourceBufferSize": BODY_BYTES}
            enabling = self._pipe.ask("Network.enable", session, maxPostDataSize=BODY_BYTES, **held)
            self._enabling.add(enabling)
            enabling.add_done_callback(self._enabling.discard)
            self._pipe.tell("Network.configureDurableMessages", session, **held)
        self._pipe.tell("Target.setAutoAttach", session, **_ATTACH)
        self._pipe.tell("Runtime.runIfWaitingForDebugger", session)

    async def _told_of(self, loading: Loading) -> None:
        body, is_text = HttpsBody(size_bytes=loading.size_bytes), False
        if loading.wants_body and self._has_room(loading):
            async with self._turns_of_large if loading.size_bytes > _LARGE_BYTES else self._turns:
                body, is_text = await self._body(loading, body)
        if loading.lacks_wire:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WIRE_S):
                    await loading.is_complete.wait()
        self._exchanges.told(loading)
        self._tell_all(loading, body, is_text=is_text)

    async def _body(self, loading: Loading, without: HttpsBody) -> tuple[HttpsBody, bool]:
        try:
            said: dict[str, Any] = await self._pipe.call(
                "Network.getResponseBody", loading.session, within_s=_BODY_S, requestId=loading.request_id
            )
        except DevtoolsError:  # the page has gone, or does not answer; an answer without a body has none to give
            is_empty = loading.size_bytes == 0 and loading.is_whole
            return (HttpsBody(size_bytes=0, data=b"") if is_empty else without), False
        return response_body(said)

    def _has_room(self, loading: Loading) -> bool:
        if loading.hops[-1].cell != self._cell:
            self._cell = loading.hops[-1].cell
            self._told = self._bytes = 0
        self._bytes += loading.size_bytes
        return self._bytes <= CELL_BYTES and self._told < EXCHANGES

    def _tell_all(self, loading: Loading, body: HttpsBody, *, is_text: bool) -> None:
        for exchanged in loading.told(body, is_text=is_text):
            self._told += 1
            if self._told > EXCHANGES:
                self.missed += 1
            else:
                self._tell(exchanged)
