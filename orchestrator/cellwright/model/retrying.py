"""How often, and after how long, a request that got no answer is made again.

Flows in: what asks once; what it raises. Flows out: the answer, and how long was waited for it. Decided here: which
failures may pass (408, 409, 429, 5xx, no connection, no answer in time, a response that broke off), which never do (a
quota that is spent, anything else that was refused); how long is waited: as long as the server says, or a random part
of a time that doubles; and where that ends. The SDK's own retries are off.
"""

from __future__ import annotations

import asyncio
import email.utils
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import openai

from cellwright.model.asking import Retrying
from cellwright.model.base import Heard, Retried
from cellwright.model.limiter import Limiter, current

_PASSING: Final = frozenset({408, 409, 429})
_FINAL_CODES: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_SPREAD: Final = 0.25
"""Part of a wait that a server asks for, by which it is longer at most, so that not all come back at once."""
_UNREACHED_TRIES: Final = 3
"""Tries at a server that has never answered: most likely its address is wrong."""

T = TypeVar("T")


class BrokenOff(openai.OpenAIError):
    """The response ended before it was whole."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class GaveUp(Exception):
    """It failed, and is not asked again: `cause` is what happened last."""

    def __init__(self, cause: Exception, *, tries: int, waited_s: float, may_pass: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.tries = tries
        self.waited_s = waited_s
        self.may_pass = may_pass


@dataclass(frozen=True)
class Got(Generic[T]):
    """What was asked for."""

    value: T
    waited_s: float


class Tries:
    """Asks until there is an answer, or no hope of one."""

    def __init__(
        self,
        retrying: Retrying,
        limiter: Limiter,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._retrying = retrying
        self._limiter = limiter
        self._sleep = sleep
        self._chance = chance
        self._was_reached = False

    async def answered(
        self, ask: Callable[[], Awaitable[T]], hear: Callable[[Heard], None], words: Callable[[Exception], str]
    ) -> Got[T]:
        """Ask, and again where that may help.

        Args:
            ask: Asks once.
            hear: Is told of each further try.
            words: Says what happened, without any credential.

        Raises:
            GaveUp: There is no answer.
        """
        waited_s, slept_s, number = 0.0, 0.0, 0
        while True:
            turn = await self._limiter.turn()
            current.set(turn)
            waited_s += turn.waited_s
            number += 1
            try:
                return Got(await ask(), waited_s)
            except openai.OpenAIError as raised:
                # what breaks off while a body is read, the SDK takes for a fault of the connection
                error = raised.__cause__ if isinstance(raised.__cause__, BrokenOff) else raised
                self._was_reached = self._was_reached or not isinstance(error, openai.APIConnectionError)
                if not may_pass(error):
                    raise GaveUp(error, tries=number, waited_s=waited_s, may_pass=False) from None
                wait_s = self._wait_s(error, number)
                if number >= self._attempts or slept_s + wait_s > self._retrying.most_s:
                    raise GaveUp(error, tries=number, waited_s=waited_s, may_pass=True) from None
                hear(Retried(self._sentence(error, words, number, wait_s)))
            finally:
                turn.sent()
            slept_s += wait_s
            waited_s += wait_s
            await self._sleep(wait_s)

    @property
    def _attempts(self) -> int:
        return self._retrying.attempts if self._was_reached else min(self._retrying.attempts, _UNREACHED_TRIES)

    def _wait_s(self, error: Exception, number: int) -> float:
        said_s = asked_wait_s(error.response.headers) if isinstance(error, openai.APIStatusError) else None
        if said_s is None:
            longest = min(self._retrying.longest_s, self._retrying.first_s * 2.0 ** (number - 1))
            return self._chance() * longest
        if isinstance(error, openai.RateLimitError) and said_s <= self._retrying.most_s:
            self._limiter.pause(said_s)  # it holds for all who ask this server
        return said_s * (1 + self._chance() * _SPREAD)

    def _sentence(self, error: Exception, words: Callable[[Exception], str], number: int, wait_s: float) -> str:
        return f"{words(error)}. It is asked again in {wait_s:.1f} s (try {number + 1} of {self._attempts})."


def may_pass(error: Exception) -> bool:
    """Return whether the same request may be answered a little later."""
    match error:
        case openai.APIStatusError():
            if str(error.code) in _FINAL_CODES or error.response.headers.get("x-should-retry") == "false":
                return False
            return error.status_code in _PASSING or error.status_code >= 500
        case openai.APIConnectionError():
            return True
        case BrokenOff() | openai.APIError():  # an error in the middle of a stream
            return str(error.code) not in _FINAL_CODES and not str(error.code or "").startswith(
                ("invalid_", "context_")
            )
        case _:
            return False


def asked_wait_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Return how many seconds a server says to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; None where it does not."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    if said is None or (seconds := _number(said)) is not None:
        return None if said is None else seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - now())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(said: str | None) -> float | None:
    try:
        number = float(said or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
