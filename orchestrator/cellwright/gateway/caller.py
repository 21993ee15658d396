"""Whoever waits for the answer to one request, and may hang up: a client gives up, a proxy's time is over.

Flows in: a request whose body is read. Flows out: the answer, and whether it was sent. Decided here: that a hang-up ends the
waiting at once, and nothing else; and when an answer counts as told: when all of it was handed over to a connection that had
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


class Caller:
    """One of them. Made by `calling`."""

    def __init__(self, gone: asyncio.Task[None]) -> None:
        self._gone = gone

    @property
    def has_left(self) -> bool:
        """True once the connection is known to be broken; also after the answer."""
        return self._gone.done()

    async def waits_for(self, work: Coroutine[Any, Any, _Found]) -> _Found:
        """Return what some work gives; cancel it when the caller hangs up.

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
def calling(request: Request) -> Iterator[Caller]:
    """Look out for the caller's hang-up, until he is answered."""
    gone = asyncio.ensure_future(_hang_up(request.receive))
    try:
        yield Caller(gone)
    finally:
        gone.cancel()


class Told(Response):
    """An answer in JSON that says when it was sent.

    Args:
        content: The JSON.
        caller: Who waits for it.
        held: What is held until it was sent, or cannot be.
        told: Called when it was sent.
    """

    media_type = "application/json"

    def __init__(self, content: bytes, caller: Caller, held: ExitStack, told: Callable[[], None]) -> None:
        super().__init__(content)
        self._caller, self._held, self._told = caller, held, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        del scope, receive
        with self._held:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await send(
                {"type": "http.response.body", "body": b"", "more_body": True}
            )  # waits until most of it has gone
            if not self._caller.has_left:
                self._told()
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def cell_told(request: Request, ongoing: Ongoing, reply_s: float | None) -> Response:
    """Wait for a cell's end, at most so many seconds; answer with it, closed or as it stands.

    Raises:
        SessionBusy: Somebody waits for it already.
        ClientDisconnect: The caller has hung up; the cell goes on.
    """
    with ExitStack() as held:
        caller = held.enter_context(calling(request))
        held.enter_context(ongoing.heard())
        cell = await caller.waits_for(ongoing.by(reply_s))
        return Told(cell.model_dump_json().encode(), caller, held.pop_all(), lambda: ongoing.told(cell))


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
