"""How a cell of a fake sandbox asks a person: as in a real one, by an event of its stream, and with an answer that comes by another request.

Flows in: what executes the cell; answers. Flows out: its events, as they come. Decided here: such a cell is executed in a thread, so that
it can wait.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
from collections.abc import AsyncIterator, Callable, Iterable

import httpx2

from cellwright_kernel.wire import Event
from cellwright_kernel.wire_people import PersonAnswer, PersonAskedEvent


class FakeQuestions:
    """The questions of one fake sandbox's cells."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, concurrent.futures.Future[PersonAnswer]] = {}

    def answer(self, number: int, said: PersonAnswer) -> bool:
        """Take an answer; False when nobody waits for it."""
        waiting = self._open.pop(number, None)
        if waiting is not None:
            waiting.set_result(said)
        return waiting is not None

    def drop(self) -> None:
        """Have nobody wait for an answer any more."""
        for number in [*self._open]:
            self.answer(number, PersonAnswer(refused="The cell was interrupted."))

    async def events(self, execute: Callable[[Callable[[str], str]], Iterable[Event]]) -> AsyncIterator[bytes]:
        """Execute a cell in a thread and yield its events as lines, its questions among them.

        Args:
            execute: Executes it with an `ask_user`, and returns the events of its end.
        """
        loop = asyncio.get_running_loop()
        coming: asyncio.Queue[Event | None] = asyncio.Queue()

        def ask_user(question: str) -> str:
            number, answer = next(self._numbers), concurrent.futures.Future[PersonAnswer]()
            self._open[number] = answer
            loop.call_soon_threadsafe(coming.put_nowait, PersonAskedEvent(number=number, question=question))
            said = answer.result()
            if said.text is None:
                raise RuntimeError(said.refused)
            return said.text

        executing = asyncio.ensure_future(asyncio.to_thread(lambda: [*execute(ask_user)]))
        executing.add_done_callback(lambda _: coming.put_nowait(None))
        try:
            while (event := await coming.get()) is not None:
                yield _line(event)
            for event in executing.result():
                yield _line(event)
        finally:
            self.drop()
            await asyncio.wait({executing})


class Streaming(httpx2.AsyncBaseTransport):
    """A transport that streams the answers to some requests, which the one to an application in this process does not.

    Args:
        other: Takes the other requests.
        stream: Returns what a request is answered with, piece by piece; None: the other transport takes it.
    """

    def __init__(
        self, other: httpx2.AsyncBaseTransport, stream: Callable[[httpx2.Request], AsyncIterator[bytes] | None]
    ) -> None:
        self._other = other
        self._stream = stream

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2."""
        pieces = self._stream(request)
        if pieces is None:
            return await self._other.handle_async_request(request)
        return httpx2.Response(200, stream=_Pieces(pieces))

    async def aclose(self) -> None:
        """See httpx2."""
        await self._other.aclose()


class _Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()  # type: ignore[attr-defined]  # it is a generator


def _line(event: Event) -> bytes:
    return event.model_dump_json().encode() + b"\n"
