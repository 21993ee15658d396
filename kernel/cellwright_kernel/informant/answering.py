"""Has a browser's HTTPS answered by whoever is asked, instead of by the world.

Flows in: requests of all pages, frames, workers and of the browser itself, before any of them goes out. Flows out: answers.
Decided here: that each is asked about outside and waits for that, with an end; that the sandbox's own loopback is left alone;
and that a request which gets no answer fails, since what it would do in the world is not wanted.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, Final

from cellwright_kernel.devtools import DevtoolsError
from cellwright_kernel.informant.exchanges import body_of, request_of
from cellwright_kernel.informant.pipe import Event, Pipe
from cellwright_kernel.wire_https import HttpsAnswer, HttpsBody, HttpsRequest

_CALL_S: Final = 5.0

Ask = Callable[[HttpsRequest, HttpsBody, str], Awaitable[HttpsAnswer | None]]
"""Returns the answer to a request with a body, for what DevTools calls so; None where none came."""


class Answering:
    """The answering of one browser.

    Args:
        pipe: To its DevTools.
        is_told: Whether what is asked of a host and port is asked about.
        ask: Who is asked.
    """

    def __init__(self, pipe: Pipe, is_told: Callable[[str, int], bool], ask: Ask) -> None:
        self._pipe = pipe
        self._is_told = is_told
        self._ask = ask
        self._asking: set[asyncio.Task[None]] = set()  # ended in `stop`

    async def begin(self) -> None:
        """Let nothing out from here on.

        Raises:
            DevtoolsError: Chromium does not answer.
        """
        # of the browser as a whole: so it holds for every page, without being attached to any
        await self._pipe.call("Fetch.enable", within_s=_CALL_S, patterns=[{"urlPattern": "https://*"}])

    def take(self, event: Event) -> None:
        """Take an event."""
        if event["method"] == "Fetch.requestPaused":
            task = asyncio.ensure_future(self._answered(event["params"]))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    def lift(self) -> None:
        """Let everything out; what waits goes on."""
        self._pipe.tell("Fetch.disable")

    async def stop(self) -> None:
        """Ask about nothing any more."""
        asking = tuple(self._asking)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _answered(self, paused: dict[str, Any]) -> None:
        said = paused["request"]
        number: dict[str, Any] = {"requestId": paused["requestId"]}
        request = request_of(said["method"], said["url"], self._is_told)
        if request is None:
            # of the sandbox's own loopback; or with an address beyond what is told, which the way out refuses in its turn
            self._pipe.tell("Fetch.continueRequest", **number)
            return
        answer = await self._ask(request, body_of(said), str(paused.get("resourceType")))
        if answer is None:
            self._pipe.tell("Fetch.failRequest", **number, errorReason="TimedOut")
        elif answer.status is None:
            self._pipe.tell("Fetch.continueRequest", **number)
        else:
            await self._fulfil(number, answer)

    async def _fulfil(self, number: dict[str, Any], answer: HttpsAnswer) -> None:
        try:
            await self._pipe.call(
                "Fetch.fulfillRequest",
                within_s=_CALL_S,
                **number,
                responseCode=answer.status,
                **({"responsePhrase": answer.reason} if answer.reason else {}),
                responseHeaders=[{"name": name, "value": value} for name, value in answer.headers],
                body=base64.b64encode(answer.body).decode(),
            )
        except DevtoolsError:  # a record made by hand may say what is no response; or whoever asked has gone
            self._pipe.tell("Fetch.failRequest", **number, errorReason="Failed")
