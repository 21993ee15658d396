"""A fake sandbox whose cells take as long as a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2

from cellwright.sandbox.base import Sandbox, Spec
from cellwright.sandbox.door import Door
from cellwright.testing.fake_sandbox import FakeSandbox
from cellwright_kernel.wire import ClosedEvent, Event, Execute, Output, OutputEvent, Text


class LongSandbox(FakeSandbox):
    """A cell that names `long` runs until it is let go or interrupted, and says what it is told to."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.said: list[Output] = []
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        """Whether it was asked for an interrupt, and may do it."""
        self.may_answer.set()
        self.status = "ok"
        self.posted: list[Execute] = []
        self.is_running = False
        self._door = Door(_Inside(self, httpx2.ASGITransport(app=self._app())))

    @property
    def deadlines(self) -> list[float]:
        """What each cell was given."""
        return [asked.deadline_s for asked in self.posted]

    def say(self, text: str) -> None:
        """Have it show a text."""
        self.said.append(Text(text=text, source="log"))

    async def run(self) -> AsyncIterator[Event]:
        self.is_running = True
        self.begun.set()
        await self.over.wait()
        self.is_running = False
        for text in self.said:
            yield OutputEvent(output=text)
        yield ClosedEvent(status="interrupted" if self.status == "interrupted" else "ok")

    async def so_far(self) -> AsyncIterator[Event]:
        await self.begun.wait()  # on a machine that is busy the time of an early answer may pass before
        for text in self.said if self.is_running else ():
            yield OutputEvent(output=text)
        yield ClosedEvent(status="running")


class _Inside(httpx2.AsyncBaseTransport):
    def __init__(self, sandbox: LongSandbox, others: httpx2.AsyncBaseTransport) -> None:
        self._sandbox = sandbox
        self._others = others

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == "/cells":
            asked = Execute.model_validate_json(await request.aread())
            self._sandbox.posted.append(asked)
            if "long" in asked.code:
                return httpx2.Response(200, stream=_Stream(self._sandbox.run()))
        elif path == "/cells/running":
            return httpx2.Response(200, stream=_Stream(self._sandbox.so_far()))
        elif path.endswith("/interrupt"):
            self._sandbox.asked.set()
            await self._sandbox.may_answer.wait()
            self._sandbox.status = "interrupted"
            self._sandbox.over.set()
        return await self._others.handle_async_request(request)


class _Stream(httpx2.AsyncByteStream):
    def __init__(self, events: AsyncIterator[Event]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._events:
            yield event.model_dump_json().encode() + b"\n"


class LongBackend:
    name = "long"

    def __init__(self) -> None:
        self.made: list[LongSandbox] = []

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        del egress_socket
        self.made.append(LongSandbox(spec))
        return self.made[-1]
