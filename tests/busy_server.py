"""The emulator behind a door that lets through so many requests a second, and one that is shut for a while; it counts who came too often."""

from __future__ import annotations

import time
from collections import Counter, deque

from pydantic import JsonValue
from starlette.responses import JSONResponse
from starlette.responses import Response as HttpResponse

from tests.front import BeforeEmulator


class BusyServer(BeforeEmulator):
    """Refuses with 429 what is too much, and says how long to wait."""

    def __init__(self, script: str, *, per_second: int | None = None, shut_for: int = 0, wait_s: float = 1.0) -> None:
        """Prepare it.

        Args:
            script: What its model plays.
            per_second: Requests that it lets through in any second; absent: all.
            shut_for: So many requests of each model are refused at first.
            wait_s: How long it tells those to wait that it refuses.
        """
        super().__init__(script)
        self.refused = 0
        self.came: list[float] = []
        """When requests came, in seconds."""
        self.too_early: list[str] = []
        """Models that came again before they were told to."""
        self._per_second = per_second
        self._shut_for = shut_for
        self._wait_s = wait_s
        self._window: deque[float] = deque()
        self._refused_of: Counter[str] = Counter()
        self._not_before: dict[str, float] = {}

    @property
    def most_in_a_second(self) -> int:
        """Most requests that came in any second."""
        return max(sum(start <= moment < start + 1 for moment in self.came) for start in self.came)

    async def answer(self, body: dict[str, JsonValue]) -> HttpResponse:
        now, model = time.monotonic(), str(body["model"])
        self.came.append(now)
        if now < self._not_before.get(model, 0):
            self.too_early.append(model)
        if not self._is_too_much(now) and self._refused_of[model] >= self._shut_for:
            return await self.handed_on(body)
        self.refused += 1
        self._refused_of[model] += 1
        self._not_before[model] = time.monotonic() + self._wait_s
        said = {"message": "Rate limit reached.", "type": "requests", "param": None, "code": "rate_limit_exceeded"}
        return JSONResponse({"error": said}, 429, headers={"retry-after": f"{self._wait_s:g}"})

    def _is_too_much(self, now: float) -> bool:
        if self._per_second is None:
            return False
        while self._window and self._window[0] <= now - 1:
            self._window.popleft()
        if len(self._window) >= self._per_second:
            return True
        self._window.append(now)
        return False
