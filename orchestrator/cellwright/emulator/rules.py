"""What a server of the Responses API can and allows, where servers differ; and how fast it may be asked.

Flows in: numbers and switches. Flows out: `ServerRules`, and a `RateLimit` that says when a request comes too early. Decided here: what is
usual, which is what the API itself does.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cellwright.errors import UsageError

Clock = Callable[[], float]
"""Returns seconds, from any beginning."""


@dataclass(frozen=True, kw_only=True)
class ServerRules:
    """What the server takes."""

    max_images: int = 1500
    """Pictures that one request may have."""
    max_image_bytes: int | None = None
    """Of one picture; absent: any."""
    images_in_tools: bool = True
    """Whether a tool's output may have pictures."""
    custom_tools: bool = True
    """Whether tools of the type `custom` may be offered."""
    chaining: bool = True
    """Whether responses are stored, so that `previous_response_id` can name one."""
    output_limit: bool = True
    """Whether `max_output_tokens` may be given."""
    context_tokens: int | None = None
    """Tokens that a request may have; absent: any number."""
    requests_per_second: float | None = None
    """Within any one second; absent: any number."""

    def __post_init__(self) -> None:
        for name in ("max_images", "max_image_bytes", "context_tokens", "requests_per_second"):
            value = getattr(self, name)
            if value is not None and not (0 if name == "max_images" else 1) <= value < math.inf:
                raise UsageError(f"{name} of {value:g} lets nothing through. Nothing was started. Give more.")


class RateLimit:
    """A window of one second that slides; what is refused does not count."""

    def __init__(self, per_second: float | None, clock: Clock = time.monotonic) -> None:
        self.violations = 0
        """Requests that came too early."""
        self.most = 0
        """Requests that there were within one second, at most, those that were refused among them."""
        self._clock = clock
        self._most_taken = None if per_second is None else math.floor(per_second)
        self._taken: deque[float] = deque()
        self._asked: deque[float] = deque()

    @property
    def remaining(self) -> int | None:
        """How many more may come now; absent when any number may."""
        return None if self._most_taken is None else max(0, self._most_taken - len(self._taken))

    def wait_s(self) -> float | None:
        """Count a request that has come; return how long it should have waited, or None when it may come."""
        now = self._clock()
        for window in (self._taken, self._asked):
            while window and window[0] <= now - 1.0:
                window.popleft()
        self._asked.append(now)
        self.most = max(self.most, len(self._asked))
        if self._most_taken is not None and len(self._taken) >= self._most_taken:
            self.violations += 1
            return self._taken[0] + 1.0 - now
        self._taken.append(now)
        return None
