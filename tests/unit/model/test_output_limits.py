"""How long a server is told that a response may be: the smaller limit, never one that it refused, and no word of it once two were."""

from __future__ import annotations

import httpx2
import openai
import pytest

from cellwright.model.base import Request, Response, Usage
from cellwright.model.output_limits import OutputLimits


def asked(most: int | None) -> Request:
    return Request("", (), (), most_output=lambda _: most)


def refusal(message: str, *, status: int = 400, code: str | None = None) -> openai.APIStatusError:
    request = httpx2.Request("POST", "http://127.0.0.1/v1/responses")
    body = {"message": message, "code": code}
    return openai.APIStatusError(message, response=httpx2.Response(status, request=request), body=body)


@pytest.mark.parametrize(
    ("most", "users", "sent"),
    [(900, None, 900), (900, 5_000, 900), (900, 900, None), (900, 16, None), (None, 16, None)],
)
def test_smaller_limit_is_sent(most: int | None, users: int | None, sent: int | None) -> None:
    chosen = {} if users is None else {"max_output_tokens": users}
    assert OutputLimits().of(asked(most), "m", chosen) == sent


def test_request_without_a_limit_has_none() -> None:
    assert OutputLimits().of(Request("", (), ()), "m", {}) is None


def test_limit_that_was_refused_is_not_sent_again_a_smaller_one_is_and_after_two_none() -> None:
    limits = OutputLimits()
    assert limits.refused(refusal("max_output_tokens is too large"), 20_000)
    assert [limits.of(asked(most), "m", {}) for most in (30_000, 20_000, 19_999)] == [None, None, 19_999]
    assert limits.refused(refusal("Unsupported parameter: 'max_output_tokens'."), 2_000)
    assert limits.of(asked(16), "m", {}) is None


def test_too_long_may_mean_the_limit_and_says_nothing_of_the_next() -> None:
    limits = OutputLimits()
    assert limits.refused(refusal("This model's maximum context length is 16384 tokens. You requested 9000."), 9_000)
    assert limits.of(asked(9_000), "m", {}) == 9_000


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (refusal("max_output_tokens is too large"), None),
        (refusal("max_output_tokens is too large", status=500), 900),
        (refusal("Invalid image."), 900),
        (TimeoutError(), 900),
    ],
    ids=["none was sent", "a fault of the server's", "another refusal", "no refusal"],
)
def test_what_is_no_refusal_of_the_limit_is_none(error: Exception, sent: int | None) -> None:
    assert not OutputLimits().refused(error, sent)


@pytest.mark.parametrize(
    ("most", "tokens", "status", "reason", "cut_off_at"),
    [
        (900, 900, "completed", None, 900),
        (900, 900, "incomplete", "max_output_tokens", 900),
        (900, 400, "incomplete", "max_output_tokens", None),
        (900, 0, "incomplete", "max_output_tokens", 900),
        (900, 0, "completed", None, None),
        (None, 900, "incomplete", "max_output_tokens", None),
    ],
    ids=["not told", "told", "by another limit", "uncounted", "uncounted, whole", "no limit"],
)
def test_response_is_cut_off_by_its_tokens_where_they_are_counted(
    most: int | None, tokens: int, status: str, reason: str | None, cut_off_at: int | None
) -> None:
    response = Response("r", status, (), Usage(100, tokens), reason=reason, most_output=most)
    assert response.cut_off_at == cut_off_at
