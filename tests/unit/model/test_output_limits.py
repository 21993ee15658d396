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


def test_number_that_is_too_large_for_a_server_has_smaller_ones_sent_next() -> None:
    limits = OutputLimits()
    assert limits.refused(refusal("max_output_tokens is too large: 20000"), 20_000, {}) == (
        "The model server does not take `max_output_tokens` as it was given (20,000). It is asked without: a response that is longer "
        "than what is left of the budget is noticed once it is there."
    )
    assert [limits.of(asked(most), "m", {}) for most in (30_000, 20_000, 10_000, 9_999)] == [None, None, None, 9_999]


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'max_output_tokens'.",
        "Unknown parameter: 'max_output_tokens'.",
        "Unrecognized request argument supplied: max_output_tokens",
        "max_output_tokens is not supported with this model",
    ],
)
def test_server_that_does_not_know_the_field_is_sent_it_never_again(message: str) -> None:
    limits = OutputLimits()
    assert limits.refused(refusal(message), 20_000, {}) is not None
    assert limits.of(asked(16), "m", {}) is None


def test_refusal_stands_where_the_user_gave_a_limit_that_would_be_sent_instead() -> None:
    chosen = {"max_output_tokens": 30_000}
    assert OutputLimits().refused(refusal("Unsupported parameter: 'max_output_tokens'."), 20_000, chosen) is None


def test_too_long_may_mean_the_limit_and_says_nothing_of_the_next() -> None:
    limits = OutputLimits()
    message = "maximum context length is 16384 tokens; you requested 9000 input tokens and 9000 max_output_tokens"
    for status in (400, 413):
        said = limits.refused(refusal(message, status=status), 9_000, {})
        assert (said or "").startswith(
            "The model server finds the request too long, which may be its limit of 9,000 tokens."
        )
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
    assert OutputLimits().refused(error, sent, {}) is None


@pytest.mark.parametrize(
    ("most", "tokens", "status", "reason", "cut_off_at"),
    [
        (900, 900, "completed", None, 900),
        (900, 900, "incomplete", "max_output_tokens", 900),
        (900, 400, "incomplete", "max_output_tokens", None),
        (900, 0, "incomplete", "max_output_tokens", 900),
        (900, 0, "completed", None, None),
        (900, 2_000, "completed", None, None),
        (900, 890, "incomplete", "max_output_tokens", 900),
        (900, 950, "incomplete", "content_filter", None),
        (None, 900, "incomplete", "max_output_tokens", None),
    ],
    ids=[
        "not told",
        "told",
        "by another limit",
        "uncounted",
        "uncounted, whole",
        "not heeded",
        "counted by itself",
        "another end",
        "no limit",
    ],
)
def test_response_is_cut_off_by_its_tokens_where_they_are_counted(
    most: int | None, tokens: int, status: str, reason: str | None, cut_off_at: int | None
) -> None:
    response = Response("r", status, (), Usage(100, tokens), reason=reason, most_output=most)
    assert response.cut_off_at == cut_off_at
