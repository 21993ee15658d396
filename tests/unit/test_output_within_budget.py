"""How long a response may be: what is left of the budget, to the last token, at the price of whoever answers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spending import used

from cellwright.budget import ANSWER_TOKENS, ANY_OUTPUT, LEAST_OUTPUT, OUTPUT_TOKENS, Budget, Meter
from cellwright.model.base import Request
from cellwright.prices import Price, Prices
from cellwright.testing.model import response


def asked(tokens: int) -> Request:
    return Request("x" * 4 * tokens, (), ())


def limit_of(meter: Meter, request: Request, *, ends: bool = False, shortens: bool = False) -> int | None:
    limit = meter.limit(request, ends=ends, shortens=shortens)
    assert limit is not None
    return limit("scripted")


@given(
    limit=st.integers(5_000, 200_000),
    turns=st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, ANSWER_TOKENS)), min_size=20, max_size=20),
)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_however_long_the_model_would_write_the_budget_holds_and_so_does_the_summary(
    limit: int, turns: list[tuple[int, int]]
):
    """A server that heeds its limit: one answer's size alone is still a guess, so those are as large as they are taken to be."""
    price = Price(model="scripted", input=10, output=100, cached_input=1)
    for budget in (Budget(turns=21, tokens=limit), Budget(turns=21, money=limit / 100_000)):
        meter = Meter(budget, prices=Prices((price,)), model="scripted")
        size = real = 1_000  # what is written of it, and with the responses, which are counted by the server alone
        for would_put_out, answers in turns:
            request = asked(size)
            if meter.take_turn(request) is not None:
                break
            most = limit_of(meter, request)
            put_out = would_put_out if most is None else min(most, would_put_out)
            came = response() if put_out == would_put_out else replace(response(), most_output=most)
            meter.took(request, used(came, real, put_out))
            size, real = size + answers, real + put_out + answers
        if meter.turns:
            assert meter.may_sum_up(asked(size))
            most = limit_of(meter, asked(size), ends=True)
            meter.took(asked(size), used(response(), real, ANY_OUTPUT if most is None else most))
            assert meter.tokens <= (budget.tokens or 10**9)
            assert meter._money <= (budget.money or 10**9)


def test_a_response_may_have_what_is_left_to_the_last_token():
    for limit in (9_000, 20_000, 30_000):
        meter = Meter(Budget(tokens=limit))
        last_words = limit - 1_200
        turn = (limit - 2 * 1_200 - ANSWER_TOKENS - 200 - OUTPUT_TOKENS) // 2
        assert (limit_of(meter, asked(1_000), ends=True), limit_of(meter, asked(1_000))) == (last_words, turn)


def test_a_response_may_have_what_the_price_of_whoever_answers_allows():
    cheap, dear = Price(model="cheap", input=1, output=10), Price(model="dear", input=1, output=100)
    meter = Meter(Budget(money=0.10), prices=Prices((cheap, dear)), model="cheap")
    limit = meter.limit(asked(1_000), ends=True, shortens=False)
    assert limit is not None
    left = 0.10 - 1_200 / 10**6
    assert (limit("cheap"), limit("dear")) == (int(left / 10 * 10**6), int(left / 100 * 10**6))


def test_no_limit_is_named_where_nothing_is_counted_or_so_much_is_left_and_never_less_than_the_api_takes():
    request = asked(1_000)
    assert Meter(Budget(turns=5, seconds=9.0)).limit(request, ends=False, shortens=False) is None
    assert limit_of(Meter(Budget(tokens=10**6)), request) is None
    assert limit_of(Meter(Budget(tokens=10)), request, ends=True) == LEAST_OUTPUT
    summary = limit_of(Meter(Budget(tokens=12_000)), request, shortens=True)
    assert summary == 12_000 - 3 * 1_200 - 3 * OUTPUT_TOKENS, "a turn and the last words come after it"
