"""The informant: tells the outside of the browser's HTTPS, and has it answered while a record answers.

Flows in: the address of DevTools, again with each new browser; whether a record answers; answers. Flows out: messages. Decided
here: that it does nothing unless the outside listens, and ends with that; that a new browser is looked at before anybody uses
it; and which hosts are the sandbox's own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Final

from cellwright_kernel.devtools import DevtoolsError, NotAnswered, Refused
from cellwright_kernel.informant.answering import Answering
from cellwright_kernel.informant.exchanges import Exchanges
from cellwright_kernel.informant.pipe import Event, Pipe
from cellwright_kernel.informant.recording import Recording
from cellwright_kernel.informant.telling import Telling
from cellwright_kernel.wire import Forward
from cellwright_kernel.wire_https import HttpsAnswer, HttpsAsked, HttpsBody, HttpsRequest

_ANSWER_S: Final = 30.0
_FOLLOWED_S: Final = 5.0
_SETTLED_S: Final = 1.0
_ICON: Final = "Other"
"""What DevTools calls a request that is none of a page's own."""
_BEACON: Final = "Ping"
_AT_ONCE: Final = 64
"""Requests that are asked about at once; the others wait for their turn, as those of a page of 500 pictures do."""


class Informant:
    """Of one kernel host.

    Args:
        executing: Returns the number of the cell that runs; None between cells.
        forwards: Ports of the own loopback that lead outside.
    """

    def __init__(self, executing: Callable[[], int | None], forwards: Iterable[Forward]) -> None:
        self._executing = executing
        self._forwards = {(forward.host.lower(), forward.port) for forward in forwards}
        self._url = ""
        self._looking: _Looking | None = None
        self._running: set[asyncio.Task[None]] = set()  # ended in `stop`

    async def follow(self, url: str) -> None:
        """Look at a new browser, whose DevTools are at an address; return once it is looked at, if anybody listens."""
        self._url = url
        if self._looking is not None:
            self._looking.look_at(url)
            with suppress(TimeoutError):  # then it is told late, or not; the browser is used all the same
                async with asyncio.timeout(_FOLLOWED_S):
                    await self._looking.looks.wait()

    async def tell(self, send: Callable[[bytes], Awaitable[None]], *, taped: bool) -> None:
        """Send what there is to tell, line by line, until `end`; who listened before is told no more.

        Args:
            send: Sends a line.
            taped: Whether requests are to be asked about before they go out.
        """
        if self._looking is not None:
            self._looking.telling.end()
        self._looking = looking = _Looking(self._executing, self.is_told, taped=taped)
        if self._url:
            looking.look_at(self._url)
        running = asyncio.ensure_future(looking.run())
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        try:
            async for line in looking.telling.lines():
                await send(line)
        finally:
            if self._looking is looking:
                self._looking = None
            looking.mute()

    async def stop(self) -> None:
        """Look at nothing any more, since the browser is about to end."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def answer(self, number: int, said: HttpsAnswer) -> bool:
        """Answer a request; False when it waits no more."""
        return self._looking is not None and self._looking.answer(number, said)

    def lift(self) -> None:
        """Ask about nothing any more: what goes out goes to the world."""
        if self._looking is not None:
            self._looking.lift()

    async def end(self) -> None:
        """Tell what there is yet, and no more."""
        if self._looking is not None:
            await self._looking.settle()

    def is_told(self, host: str, port: int) -> bool:
        """Return whether a host and port are outside; what the sandbox's own loopback serves comes with its cells."""
        return not _is_loopback(host) or (host, port) in self._forwards


class _Looking:
    """What is told to one listener."""

    def __init__(
        self, executing: Callable[[], int | None], is_told: Callable[[str, int], bool], *, taped: bool
    ) -> None:
        self.telling = Telling(executing)
        self.looks = asyncio.Event()
        """Set while the browser of now is looked at."""
        self._executing = executing
        self._is_told = is_told
        self._is_taped = taped
        self._is_muted = False
        self._url = ""
        self._has_url = asyncio.Event()
        self._recording: Recording | None = None
        self._answering: Answering | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[HttpsAnswer]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def look_at(self, url: str) -> None:
        """Look at another browser."""
        self._url = url
        self.looks.clear()
        self._has_url.set()

    async def run(self) -> None:
        """Look at one browser after the other."""
        while not self._is_muted:
            await self._has_url.wait()
            self._has_url.clear()
            with suppress(DevtoolsError):  # it has ended; another one comes, or none
                await self._look(await Pipe.open(self._url))

    def mute(self) -> None:
        """Nobody listens any more: tell nothing, and ask about nothing."""
        self._is_muted = True
        self._has_url.set()
        self.telling.end()
        self.lift()
        if self._recording is not None:
            self._recording.mute()

    def lift(self) -> None:
        """As `Informant.lift`."""
        self._is_taped = False
        if self._answering is not None:
            self._answering.lift()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(HttpsAnswer())

    def answer(self, number: int, said: HttpsAnswer) -> bool:
        """As `Informant.answer`."""
        waiting = self._waiting.get(number)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(said)
        return True

    async def settle(self) -> None:
        """As `Informant.end`."""
        if self._recording is not None:
            await self._recording.settle(_SETTLED_S)
            self.telling.missed(self._recording.missed)
        self.telling.end()

    async def _look(self, pipe: Pipe) -> None:
        exchanges = Exchanges(self._is_told, self._executing, self.telling.tell)
        self._recording = recording = Recording(pipe, exchanges, self.telling.tell)
        self._answering = answering = Answering(pipe, self._is_told, self._asked) if self._is_taped else None

        running = asyncio.ensure_future(pipe.run(partial(_take, recording, answering)))
        try:
            with suppress(NotAnswered, Refused):  # then it is not said to have begun; a page may be attached already
                if answering is not None:
                    await answering.begin()
                await recording.begin()
                self.looks.set()
                self.telling.begin()
            if self._is_muted:
                self.mute()
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await recording.stop()
            if answering is not None:
                await answering.stop()
            self.telling.missed(exchanges.missed)

    async def _asked(self, request: HttpsRequest, body: HttpsBody, kind: str) -> HttpsAnswer | None:
        async with self._turns:
            return await self._answer_to(request, body, kind) if self._is_taped else HttpsAnswer()

    async def _answer_to(self, request: HttpsRequest, body: HttpsBody, kind: str) -> HttpsAnswer | None:
        number = next(self._numbers)
        self._waiting[number] = waiting = asyncio.get_running_loop().create_future()
        try:
            asks = {"is_icon": kind == _ICON, "is_beacon": kind == _BEACON}
            asked = HttpsAsked(number=number, request=request, body=body, **asks)
            if not self.telling.tell(asked):
                return None
            await asyncio.wait({waiting}, timeout=_ANSWER_S)
            return waiting.result() if waiting.done() else None
        finally:
            del self._waiting[number]


def _take(recording: Recording, answering: Answering | None, event: Event) -> None:
    recording.take(event)
    if answering is not None:
        answering.take(event)


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
