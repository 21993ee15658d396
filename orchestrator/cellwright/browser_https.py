"""The HTTPS of a sandbox's browser, as the inside tells it: recorded, and answered while a record answers.

Flows in: messages of the kernel host. Flows out: records, by way of `outgoing.py`, and answers of a tape. Decided here: that
nothing is recorded, or answered, of a host that the sandbox may not reach; that a cell which does not exist is none; and that
whoever tells what no kernel host tells is not listened to any more, which the run says. The session goes on: as far as
the outside sees for itself nothing has changed, since all of it is the inside's word.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, assert_never

from cellwright.counted import counted
from cellwright.egress import AllowList, Tape
from cellwright.egress.rules import plain_host
from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.errors import CellwrightError
from cellwright.outgoing import Outgoing
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.sandbox import door_https
from cellwright.sandbox.door import Door
from cellwright_kernel.wire_https import (
    HttpsAnswer,
    HttpsAsked,
    HttpsBegan,
    HttpsBody,
    HttpsEnded,
    HttpsExchanged,
    HttpsMessage,
    HttpsMissed,
    HttpsRequest,
    HttpsSent,
)

_log = logging.getLogger("cellwright.https")
_BEGAN_S: Final = 10.0
"""Seconds until the browser is looked at; 0.03 are usual."""
_AT_ONCE: Final = 16
"""Requests that are answered at once."""
_LARGE_BYTES: Final = 256 * 1024
"""Bodies from here on are hashed in a thread: 16 MiB take 10 ms."""
_ANSWERED: Final = 1000
_TOPIC: Final = "https"
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "content-encoding", "content-length", "keep-alive", "transfer-encoding"}
)
"""Of a response; its body is given as the page was, decompressed."""


class BrowserHttps:
    """Of one session; begun again with each of its sandboxes.

    Args:
        allow: What the sandbox may reach.
        journal: Where it is noted what was wrong.
        outgoing: Records what went out.
        tape: Answers until it is lifted; absent: the world does.
    """

    def __init__(self, allow: Sequence[str], journal: Journal, outgoing: Outgoing, tape: Tape | None) -> None:
        self._allow = AllowList.of(allow)
        self._journal = journal
        self._outgoing = outgoing
        self._tape = tape
        self._door: Door | None = None
        self._listening: asyncio.Task[None] | None = None  # awaited in `stop`
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._is_ending = self._has_missed = False
        self._answered = deque[Request](maxlen=_ANSWERED)
        """By the tape, and not told yet: that may be when it is lifted already."""

    async def begin(self, door: Door) -> None:
        """Listen to a kernel host; return once its browser is looked at, or it is known that it is not."""
        await self.stop()
        began = asyncio.Event()
        self._door = door
        self._is_ending = self._has_missed = False
        self._listening = asyncio.ensure_future(self._listen(door, began))
        beginning = asyncio.ensure_future(began.wait())
        await asyncio.wait({beginning, self._listening}, timeout=_BEGAN_S, return_when=asyncio.FIRST_COMPLETED)
        beginning.cancel()
        if not (began.is_set() or self._listening.done()):
            self._note("The browser was not looked at in time. What it loads by HTTPS may not be in the record.")

    async def end(self) -> None:
        """Have the rest told, and record it."""
        if self._listening is None or self._listening.done() or self._door is None:
            return
        self._is_ending = True
        await door_https.end(self._door)
        await asyncio.wait({self._listening}, timeout=door_https.END_S)
        await self.stop()

    async def stop(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    @property
    def _is_taped(self) -> bool:
        return self._tape is not None and not self._tape.is_lifted

    async def _listen(self, door: Door, began: asyncio.Event) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                lifting = group.create_task(self._lift(door)) if self._is_taped else None
                async for message in door_https.told(door, taped=self._is_taped, cell=lambda: self._journal.cells):
                    await self._take(message, door, group, began)
                if lifting is not None:
                    lifting.cancel()
        except* door_https.Untrue as untrue:
            self._note(
                f"The kernel host is not believed any more in what it tells of the browser's HTTPS. {untrue.exceptions[0]} "
                "Usually code in the sandbox has taken its place. HTTPS is not recorded from here on."
            )
        except* CellwrightError:
            self._note_end()  # the sandbox has ended, or nothing is told there; or the journal takes no more
        except* Exception:
            _log.exception("What the browser loads by HTTPS is not recorded any more")
            self._note_end()
        else:
            self._note_end()

    async def _lift(self, door: Door) -> None:
        if self._tape is not None:
            await self._tape.lifted.wait()
            await door_https.lift(door)

    async def _take(self, message: HttpsMessage, door: Door, group: asyncio.TaskGroup, began: asyncio.Event) -> None:
        match message:
            case HttpsBegan():
                began.set()
            case HttpsSent():
                if (request := self._allowed(message.request)) is not None:
                    self._outgoing.told(request, self._cell(message.cell), taped=self._is_taped)
            case HttpsExchanged():
                await self._exchanged(message)
            case HttpsAsked():
                await self._turns.acquire()
                group.create_task(self._answer(message, door))
            case HttpsMissed() if self._has_missed:
                raise door_https.Untrue("It said more than once how much it had missed.")
            case HttpsMissed(exchanges=missed):
                self._has_missed = True
                self._note(f"{counted(missed, 'exchange')} of the browser by HTTPS had no room in the record.")
            case HttpsEnded():
                return
            case _:
                assert_never(message)

    async def _exchanged(self, told: HttpsExchanged) -> None:
        request = self._allowed(told.request)
        if request is None:
            return
        cell = self._cell(told.cell)
        is_taped = self._is_taped or request in self._answered
        with suppress(ValueError):
            self._answered.remove(request)
        if not self._outgoing.has_room(cell):
            return
        if told.request_body.size_bytes + told.body.size_bytes > _LARGE_BYTES:
            traffic = await asyncio.to_thread(_traffic, request, told)
        else:
            traffic = _traffic(request, told)
        self._outgoing.response(traffic, cell, taped=is_taped)

    async def _answer(self, asked: HttpsAsked, door: Door) -> None:
        try:
            await door_https.answer(door, asked.number, await self._answer_to(asked))
        finally:
            self._turns.release()

    async def _answer_to(self, asked: HttpsAsked) -> HttpsAnswer:
        request = self._allowed(asked.request)
        if self._tape is None or self._tape.is_lifted or request is None:
            return HttpsAnswer()  # where it may not go the way out tells it so
        if asked.is_icon and request.changes_nothing and not self._tape.knows(request):
            return HttpsAnswer(status=404)
        self._answered.append(request)
        found = await self._tape.answer(request, _body(asked.body), is_beacon=asked.is_beacon)
        if isinstance(found, str):
            said = (("Content-Type", "text/plain; charset=utf-8"),)
            return HttpsAnswer(status=502, headers=said, body=f"{found}\n".encode())
        answer, data = found
        headers = tuple(header for header in answer.headers if header[0].lower() not in _NOT_PASSED_ON)
        return HttpsAnswer(status=answer.status, reason=answer.reason, headers=headers, body=data)

    def _allowed(self, told: HttpsRequest) -> Request | None:
        """Return a request; None where the sandbox may not reach its host, so that what is told of it is made up inside."""
        host = plain_host(told.host)
        if host is None or self._allow.rule_for(host, told.port) is None:
            return None
        return Request(told.method, host, told.port, told.target, (), "https")

    def _cell(self, claimed: int | None) -> int | None:
        return claimed if claimed is not None and 1 <= claimed <= self._journal.cells else None

    def _note_end(self) -> None:
        if not self._is_ending:
            with suppress(CellwrightError):  # the journal takes no more
                self._note(
                    "The kernel host ceased to tell of the browser's HTTPS. What that browser loads now is not recorded."
                )

    def _note(self, text: str) -> None:
        self._journal.append(records.Note(topic=_TOPIC, text=text))


def _traffic(request: Request, told: HttpsExchanged) -> Traffic:
    said, came = _body(told.request_body), _body(told.body)
    return Traffic(request, said, told.status, told.reason, told.headers, came)


def _body(told: HttpsBody) -> Body:
    return Body(told.size_bytes, "", None) if told.data is None else Body.of(told.data)
