"""Events as the body of an answer.

Flows in: batches of events. Flows out: NDJSON, a line each, sent as the batches come. Decided here: that nobody has to listen to
the end; and how a line is made, since kept text is much.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cellwright_kernel.wire import Event


class EventStream(Response):
    """Batches of events as lines of NDJSON, sent as they come.

    Starlette's own streaming starts two tasks, to find out early that nobody reads. Here that changes nothing: a cell runs
    to its end, and what is sent to nobody is dropped.

    Args:
        batches: Ends with one whose last event is `closed`.
    """

    media_type = "application/x-ndjson"

    def __init__(self, batches: AsyncIterator[list[Event]]) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers()
        self._batches = batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them, as ASGI has it."""
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for batch in self._batches:
            lines = b"".join(map(_line, batch))
            is_last = batch[-1].type == "closed"  # the end of the body leaves together with it
            await send({"type": "http.response.body", "body": lines, "more_body": not is_last})


async def singly(events: Iterable[Event]) -> AsyncIterator[list[Event]]:
    """Yield events that are there already, each as a batch of its own."""
    for event in events:
        yield [event]


def _line(event: Event) -> bytes:
    if event.type == "kept":  # 64 MiB of it at a cell's end: 0.1 s in place of 0.6
        return orjson.dumps(event.__dict__, option=orjson.OPT_APPEND_NEWLINE)
    return event.model_dump_json().encode() + b"\n"
