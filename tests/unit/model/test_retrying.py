"""Which failures are asked about again, after how long, and when that ends."""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate

import httpx2
import openai
import pytest

from cellwright.errors import UsageError
from cellwright.model.asking import Retrying
from cellwright.model.base import Heard, Retried
from cellwright.model.limiter import Limiter
from cellwright.model.refusals import Words, code_of
from cellwright.model.retrying import BrokenOff, GaveUp, Tries, asked_wait_s, may_pass

REQUEST = httpx2.Request("POST", "http://h/v1/responses")
WORDS = Words("m", "http://h/v1", "sk-abcdefghijk")


def refused(status: int, code: str | None = None, message: str = "No.", **headers: str) -> openai.APIStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = httpx2.Response(status, headers=named, request=REQUEST)
    kind = openai.RateLimitError if status == 429 else openai.APIStatusError
    return kind(message, response=answer, body={"message": message, "code": code})


UNREACHED = openai.APIConnectionError(request=REQUEST)


class Asked:
    """Asks; what is waited is only counted."""

    def __init__(
        self, outcomes: Sequence[Exception | str], retrying: Retrying | None = None, chance: float = 1.0
    ) -> None:
        self.slept: list[float] = []
        self.heard: list[Heard] = []
        self.asked = 0
        self.limiter = Limiter(clock=lambda: 0.0, sleep=self._sleep)
        self._outcomes = iter(outcomes)
        self._last = outcomes[-1]
        self._tries = Tries(retrying or Retrying(), self.limiter, sleep=self._sleep, chance=lambda: chance)

    async def _sleep(self, duration_s: float) -> None:
        self.slept.append(round(duration_s, 3))
        self.limiter._paused_until = 0.0  # so much time has gone by

    async def _ask(self) -> str:
        self.asked += 1
        outcome = next(self._outcomes, self._last)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def go(self) -> str:
        return (await self._tries.answered(self._ask, self.heard.append, WORDS.what)).value


@pytest.mark.parametrize(
    "error",
    [
        *(refused(status) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
        UNREACHED,
        openai.APITimeoutError(request=REQUEST),
        BrokenOff("the stream ended before the response did"),
        openai.APIError("overloaded", REQUEST, body={"code": "server_error"}),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'status_code', '')}",
)
async def test_what_may_pass_is_asked_again(error: Exception) -> None:
    asked = Asked([error, "here"])
    assert await asked.go() == "here"
    assert (asked.asked, len(asked.heard)) == (2, 1)


@pytest.mark.parametrize(
    "error",
    [
        *(refused(status) for status in (400, 401, 403, 404, 413, 422)),
        refused(429, "insufficient_quota"),
        refused(500, x_should_retry="false"),
        openai.APIError("no", REQUEST, body={"code": "invalid_prompt"}),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'status_code', '')} {error.code}",
)
async def test_what_does_not_pass_is_asked_once(error: Exception) -> None:
    asked = Asked([error, "here"])
    with pytest.raises(GaveUp) as caught:
        await asked.go()
    assert (asked.asked, asked.slept, caught.value.may_pass) == (1, [], False)


async def test_waits_double_and_are_a_random_part_of_that() -> None:
    full, half = (Asked([refused(500)], Retrying(attempts=5, first_s=1, longest_s=6), chance) for chance in (1.0, 0.5))
    for asked in (full, half):
        with pytest.raises(GaveUp):
            await asked.go()
    assert full.slept == [1, 2, 4, 6]
    assert half.slept == [0.5, 1, 2, 3]


async def test_number_of_tries_is_bounded() -> None:
    asked = Asked([refused(503)], Retrying(attempts=4))
    with pytest.raises(GaveUp) as caught:
        await asked.go()
    assert (asked.asked, caught.value.tries, caught.value.may_pass) == (4, 4, True)


async def test_what_is_waited_in_all_is_bounded() -> None:
    asked = Asked([refused(503)], Retrying(attempts=99, first_s=10, longest_s=10, most_s=35))
    with pytest.raises(GaveUp):
        await asked.go()
    assert asked.slept == [10, 10, 10]


async def test_server_says_how_long_and_it_is_a_little_longer_than_that() -> None:
    asked = Asked([refused(429, retry_after="20"), refused(503, retry_after_ms="1500"), "here"])
    assert await asked.go() == "here"
    assert asked.slept == [25, 1.875]


async def test_wait_that_is_longer_than_all_that_may_be_waited_is_not_begun() -> None:
    asked = Asked([refused(429, retry_after="3600")])
    with pytest.raises(GaveUp):
        await asked.go()
    assert (asked.asked, asked.slept) == (1, [])


async def test_429_shuts_the_gate_for_everybody() -> None:
    asked = Asked([refused(429, retry_after="7")], Retrying(attempts=1))
    with pytest.raises(GaveUp):
        await asked.go()
    assert asked.limiter._paused_until == 7


async def test_server_that_was_never_reached_is_not_asked_for_long() -> None:
    never, later = Asked([UNREACHED]), Asked([refused(500), UNREACHED])
    for asked in (never, later):
        with pytest.raises(GaveUp):
            await asked.go()
    assert (never.asked, later.asked) == (3, 8)


async def test_each_further_try_is_told_without_the_key() -> None:
    asked = Asked([refused(429, message="Slow down, sk-abcdefghijk.", retry_after="2"), "here"])
    await asked.go()
    said = "The model server refused the request with status 429: Slow down, ********. It is asked again in 2.5 s (try 2 of 8)."
    assert asked.heard == [Retried(said)]


@pytest.mark.parametrize("key", ["", "k", "none", "no key!", "not-needed"])
def test_a_word_that_stands_for_no_key_tears_no_message_apart(key: str) -> None:
    said = f"an incomplete chunked read, none of it packed {key}"
    assert Words("m", "http://h/v1", key).without_key(said) == said.rstrip()


@pytest.mark.parametrize("key", ["8 chars!", "a1b2c3d4", "sk-abcdefghijk", "a.key+of(several)*kinds"])
def test_a_key_of_eight_characters_or_more_is_in_no_message(key: str) -> None:
    assert Words("m", "http://h/v1", key).without_key(f"Key {key} (x{key}y).") == "Key ******** (x********y)"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": formatdate(1030.0, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(900.0, usegmt=True)}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "x", "retry-after": "1"}, 1.0),
        ({}, None),
    ],
)
def test_wait_is_read_as_the_server_says_it(headers: dict[str, str], wait_s: float | None) -> None:
    assert asked_wait_s(httpx2.Headers(headers), now=lambda: 1000.0) == wait_s


@pytest.mark.parametrize("word", ["nan", "inf", "1e999"])
def test_wait_that_is_no_number_of_seconds_is_none(word: str) -> None:
    assert asked_wait_s(httpx2.Headers({"retry-after": word})) is None


@pytest.mark.parametrize("name", ["attempts", "most_s", "first_s", "longest_s", "idle_s", "total_s"])
def test_patience_of_nothing_is_used_wrongly(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=0"):
        Retrying(**{name: 0})


LONG = {
    "as the API says it": refused(400, "context_length_exceeded"),
    "vLLM": refused(400, "400", "This model's maximum context length is 8192 tokens. However, you requested 9000."),
    "llama.cpp": refused(400, None, "the request exceeds the available context size, try increasing it"),
    "too large": refused(413, None, "prompt is too long"),
}


@pytest.mark.parametrize("server", LONG)
def test_too_long_is_one_word_whatever_the_server_says(server: str) -> None:
    error = WORDS.failed(LONG[server], tries=1, waited_s=0, may_pass=False)
    assert error.code == "context_length_exceeded"
    assert "longer than the model can read" in str(error)


def test_other_words_of_the_api_are_kept() -> None:
    assert code_of(refused(400, "image_too_large")) == "image_too_large"
    assert code_of(refused(429, "rate_limit_exceeded", "context length")) == "rate_limit_exceeded"
    assert code_of(ValueError()) is None


SENTENCES: dict[str, tuple[Exception, str]] = {
    "quota": (refused(429, "insufficient_quota"), "waiting does not help"),
    "busy": (refused(429), "Too many requests"),
    "broken": (BrokenOff("nothing came for 300 s"), "nothing came for 300 s. Usually a passing fault"),
    "late": (openai.APITimeoutError(request=REQUEST), "did not answer in time. Usually the address is wrong"),
    "gone": (UNREACHED, "could not be reached"),
}


@pytest.mark.parametrize("what", SENTENCES)
def test_sentence_says_how_often_it_was_tried_and_what_is_left(what: str) -> None:
    error, said = SENTENCES[what]
    message = str(WORDS.failed(error, tries=3, waited_s=1.5, may_pass=may_pass(error)))
    assert said in message
    assert "It was asked 3 times. What was executed before is recorded" in message
