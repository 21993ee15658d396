"""What Chromium's visible pages are still doing: loading, animating, or waiting for the network.

Flows in: the address of DevTools. Flows out: for one moment, what keeps a page from being as it will stay. Decided
here: that requests are counted from the moment a session begins to use `screen`, on a connection that only listens;
that what never ends (an animation without end, a stream of events, a request that hangs) is not waited for; that a page
which waits for a server loads; and that a page answers only after it has painted, so that what a click has just changed is
on the screen or known to be coming.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from cellwright_kernel.devtools import Devtools, DevtoolsError
from cellwright_kernel.devtools_http import socket_url
from cellwright_kernel.navigation import navigation_of

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_CONNECT_S: Final = 2.0
_HANGING_S: Final = 3.0
"""A request that takes longer than this is a long poll, or will not come."""
_SLOW_S: Final = 0.25
"""A page that does not answer for so long may wait for a server; to have painted twice takes 40 ms."""
_LOADING: Final = "a page is loading"
_ENDLESS: Final = frozenset({"EventSource", "WebSocket", "Media", "Ping", "Prefetch", "Manifest", "Other"})
"""Kinds of request that do not change what a page shows now, or never end."""
_ATTACH: Final[dict[str, Any]] = {
    "autoAttach": True,
    "waitForDebuggerOnStart": False,
    "flatten": True,
    "filter": [{"type": "page"}, {"type": "iframe"}],
}
_STATE: Final = """[document.readyState, document.getAnimations().filter(one => one.playState === 'running' &&
    one.effect && Number.isFinite(one.effect.getComputedTiming().endTime)).length]"""
_PAINTED: Final = f"""new Promise(done => document.visibilityState !== 'visible' ? done(null) :
    requestAnimationFrame(() => requestAnimationFrame(() => done({_STATE}))))"""

Message = dict[str, Any]


class Pages:
    """A listener at one Chromium; safe to use while nothing answers there.

    Args:
        address: Such as `http://127.0.0.1:9222`.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: ClientConnection | None = None
        self._numbers = itertools.count(1)
        self._reading: asyncio.Task[None] | None = None
        self._answers: dict[int, tuple[str, asyncio.Future[Message]]] = {}
        self._targets: dict[str, _Target] = {}
        """By their sessions."""
        self._connecting = asyncio.Lock()
        self._url = ""

    async def listen(self) -> None:
        """Connect if need be, and count requests from here on; where nothing answers, there are no pages."""
        async with self._connecting:
            if self._socket is None:
                await self._connect()

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                self._url = await asyncio.to_thread(socket_url, self._address, _CONNECT_S)
                self._socket = await connect(self._url, max_size=None, proxy=None, compression=None, ping_interval=None)
                self._reading = asyncio.ensure_future(self._read(self._socket))
                await self._ask("Target.setAutoAttach", "", **_ATTACH)  # answered once all that are there are attached
        except (OSError, ValueError, WebSocketException):
            await self.close()

    async def busy(self) -> tuple[str, ...]:
        """What the visible pages still do, in words; comes once each has painted twice. Cancel it to give up."""
        targets = tuple(self._targets.items())
        states = await asyncio.gather(*(self._state(session, target) for session, target in targets))
        found: list[str] = []
        for (_, target), state in zip(targets, states, strict=True):
            if state is None:
                continue
            ready, animations = state
            if ready != "complete":
                found.append(_LOADING)
            if animations:
                found.append(_counted(animations, "animation"))
            if under_way := target.under_way():
                found.append(_counted(under_way, "request"))
        return tuple(found)

    async def loading(self) -> tuple[str, ...]:
        """Whether a page waits for a server, in the words of `busy`; no page is asked, and none is waited for."""
        pages = [target for target in self._targets.values() if target.is_page]
        return (_LOADING,) if await self._navigates(*pages) else ()

    async def close(self) -> None:
        """End the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()
        if self._reading is not None:
            await self._reading

    async def _state(self, session: str, target: _Target) -> tuple[str, int] | None:
        """None of a page that is not visible, or that has gone or crashed."""
        if target.is_crashed:
            return None
        # a frame of another site that is scrolled out of view never paints
        expression = _PAINTED if target.is_page else _STATE
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        asking = asyncio.ensure_future(self._ask("Runtime.evaluate", session, **asked))
        try:
            await asyncio.wait({asking}, timeout=_SLOW_S)
            if not asking.done() and target.is_page and await self._navigates(target):
                return "loading", 0
            value = (await asking).get("result", {}).get("result", {}).get("value")
        finally:
            asking.cancel()
        match value:  # a page's word, which may be anything
            case [str(ready), int(animations)]:
                return ready, animations
        return None

    async def _navigates(self, *targets: _Target) -> bool:
        """Whether any of these pages waits for a server, or for the process that is to show it.

        Asked on a connection of its own, since this one only listens: 10 to 20 ms for four pages on a busy machine.
        """
        try:
            async with Devtools.opened(self._url) as devtools:
                for target in targets:
                    if await navigation_of(devtools, target.id) is not None:
                        return True
                return False
        except DevtoolsError:  # the browser has gone, and with it the page
            return False

    async def _ask(self, method: str, session: str, **parameters: object) -> Message:
        """Send and wait for the answer; an empty one when the page or the browser goes meanwhile."""
        number = next(self._numbers)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._answers[number] = session, answer
        try:
            await self._send(number, method, session, **parameters)
            return await answer
        finally:
            del self._answers[number]

    async def _send(self, number: int, method: str, session: str, **parameters: object) -> None:
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        if self._socket is None:
            self._give_up(None)
            return
        with contextlib.suppress(WebSocketException, OSError):
            await self._socket.send(json.dumps(message))

    def _give_up(self, session: str | None) -> None:
        """Answer with nothing what was asked of a session that has gone, or of all."""
        for of, answer in self._answers.values():
            if session in (None, of) and not answer.done():
                answer.set_result({})

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                await self._take(json.loads(text))
        except (WebSocketException, OSError, ValueError, KeyError):  # it has gone, or is no DevTools
            return
        finally:
            if self._socket is socket:
                self._socket = None
            self._targets.clear()
            self._give_up(None)

    async def _take(self, message: Message) -> None:
        if "id" in message:
            _, answer = self._answers.get(message["id"], ("", None))
            if answer is not None and not answer.done():
                answer.set_result(message)
            return
        parameters, session = message.get("params", {}), message.get("sessionId", "")
        target = self._targets.get(session)
        match message.get("method"):
            case "Target.attachedToTarget":
                await self._attached(parameters["sessionId"], parameters["targetInfo"])
            case "Target.detachedFromTarget":
                self._targets.pop(parameters["sessionId"], None)
                self._give_up(parameters["sessionId"])
            case "Inspector.targetCrashed" if target is not None:
                target.is_crashed = True
                target.requests.clear()
                self._give_up(session)
            case "Inspector.targetReloadedAfterCrash" if target is not None:
                target.is_crashed = False
            case "Network.requestWillBeSent" if target is not None and parameters.get("type") not in _ENDLESS:
                target.begun(parameters)
            case "Network.loadingFinished" | "Network.loadingFailed" if target is not None:
                target.requests.pop(parameters["requestId"], None)

    async def _attached(self, session: str, target: Message) -> None:
        self._targets[session] = _Target(target["targetId"], target["type"] == "page")
        nothing_kept = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
        await self._send(next(self._numbers), "Inspector.enable", session)  # tells of crashes, also of one before
        await self._send(next(self._numbers), "Network.enable", session, **nothing_kept)
        await self._send(next(self._numbers), "Target.setAutoAttach", session, **_ATTACH)


@dataclass
class _Target:
    """A page, or a frame that has a process of its own."""

    id: str
    is_page: bool
    is_crashed: bool = False
    """Whether its process has ended, so that it answers nothing until it is loaded again."""
    requests: dict[str, float] = field(default_factory=dict)
    """Those under way, and when each began."""

    def begun(self, request: Message) -> None:
        """Count a request; with a new document those of the last one are forgotten."""
        if request.get("type") == "Document" and request.get("frameId") == self.id:
            self.requests.clear()
        self.requests.setdefault(request["requestId"], time.monotonic())

    def under_way(self) -> int:
        """How many requests are still waited for."""
        since = time.monotonic() - _HANGING_S
        return sum(began > since for began in self.requests.values())


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
