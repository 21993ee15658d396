"""The emulator behind a bad connection: it refuses, breaks off or falls silent where a test says so, and answers else."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue
from starlette.responses import JSONResponse, StreamingResponse
from starlette.responses import Response as HttpResponse

from tests.front import BeforeEmulator


@dataclass(frozen=True)
class Fault:
    """What becomes of one request."""

    kind: Literal["status", "drop", "silence"]
    status: int = 500
    code: str | None = None
    message: str = "Not now."
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: int | None = None
    """Events that come before it; absent: all of them."""


class Cut(Exception):
    """The connection is cut here."""


class FaultyServer(BeforeEmulator):
    """Has the faults that are given to it, one a request, then none."""

    def __init__(self, script: str = "Hi.") -> None:
        super().__init__(script)
        self.faults: deque[Fault] = deque()
        self.came: list[float] = []
        """When each request came, in seconds."""

    def has(self, *faults: Fault) -> FaultyServer:
        self.faults.extend(faults)
        return self

    async def answer(self, body: dict[str, JsonValue]) -> HttpResponse:
        self.came.append(time.monotonic())
        fault = self.faults.popleft() if self.faults else None
        if fault is not None and fault.kind == "status":
            said = {"message": fault.message, "type": "x", "param": fault.param, "code": fault.code}
            return JSONResponse({"error": said}, fault.status, headers=dict(fault.headers))
        answer = await self.handed_on(body)
        if fault is None:
            return answer
        if not isinstance(answer, StreamingResponse):
            await self.over.wait()
            return answer
        return StreamingResponse(self._broken(answer, fault), media_type="text/event-stream")

    async def _broken(self, answer: StreamingResponse, fault: Fault) -> AsyncIterator[str | bytes | memoryview]:
        number = 0
        async for event in answer.body_iterator:
            if number == fault.after:
                break
            yield event
            number += 1
        if fault.kind == "silence":
            await self.over.wait()
        raise Cut
