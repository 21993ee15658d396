"""Whoever waits for the answer to one request, and may hang up: a client gives up, a proxy's time is over.

Flows in: a request whose body is read. Flows out: the answer, and whether it was sent. Decided here: that a hang-up ends the
waiting at once, and nothing else; and when an answer counts as sent: when all of it was handed over to a connection that had
not broken by then. What gets lost after that nobody here can know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cellwright.ongoing import Ongoing

_Found = TypeVar("_Found")


class Waiter:
    """One of them. Made by `waiting`."""

    def __init__(self, gone: asyncio.Task[None]) -> None:
        self._gone = gone

    @property
    def has_left(self) -> bool:
        """True once the connection is known to be broken; also after the answer."""
        return self._gone.done()

    async def waits_for(self, work: Coroutine[Any, Any, _Found]) -> _Found:
        """Return what some work gives; cancel it when the waiter hangs up.

        The work is begun in any case, also if he has left already: until its first wait it is not cancelled.

        Raises:
            ClientDisconnect: He has hung up.
        """
        working = asyncio.ensure_future(work)  # begins before the wait can end
        try:
            await asyncio.wait({working, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientDisconnect
            return working.result()
        finally:
            if not working.done():
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)


@contextmanager
def waiting(request: Request) -> Iterator[Waiter]:
    """Look out for the waiter's hang-up, until he is answered."""
    gone = asyncio.ensure_future(_hang_up(request.receive))
    try:
        yield Waiter(gone)
    finally:
        gone.cancel()


class WaitersAnswer(Response):
    """An answer in JSON that says when it was sent.

    Args:
        content: The JSON.
        waiter: Who waits for it.
        held: What is held until it was sent, or cannot be.
        on_sent: Called when it was sent.
    """

    media_type = "application/json"

    def __init__(self, content: bytes, waiter: Waiter, held: ExitStack, on_sent: Callable[[], None]) -> None:
        super().__init__(content)
        self._waiter, self._held, self._on_sent = waiter, held, on_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope, receive
        with self._held:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send(
                {"type": "http.response.body", "body": b"", "more_body": True}
            )  # waits until most of it has gone
            if not self._waiter.has_left:
                self._on_sent()
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def cell_answer(request: Request, ongoing: Ongoing, reply_s: float | None) -> Response:
    """Wait for a cell's end, at most so many seconds; answer with it, closed or as it stands.

    Raises:
        SessionBusy: Somebody waits for it already.
        ClientDisconnect: The waiter has hung up; the cell goes on.
    """
    with ExitStack() as held:
        waiter = held.enter_context(waiting(request))
        held.enter_context(ongoing.waited_for())
        cell = await waiter.waits_for(ongoing.by(reply_s))
        return WaitersAnswer(cell.model_dump_json().encode(), waiter, held.pop_all(), lambda: ongoing.told(cell))


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
