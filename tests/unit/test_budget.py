"""A budget holds: what would break it is not asked for, the summary still fits, and the model is told in time what is left."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spending import DIME, DIMES, used

from cellwright.budget import ANSWER_TOKENS, OUTPUT_TOKENS, Budget, Meter
from cellwright.conversation import user_item
from cellwright.errors import ModelError, UsageError
from cellwright.loop import Outcome, drive, run
from cellwright.model.base import Request, Response, Usage
from cellwright.model.fallback import BACK_AFTER_S, FallbackModel
from cellwright.prices import Price, Prices
from cellwright.progress import Cautioned, CellEnded, Progress
from cellwright.record import read_run
from cellwright.record.records import ModelRequest, Note
from cellwright.session import Session
from cellwright.terms import Sending, Terms
from cellwright.testing.clock import FakeClock
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, response, says

SUMMARY = "Half of it is done."


async def driven(
    turns: Sequence[Response | Exception], budget: Budget, *, prices: Prices = DIMES, seen: list[Progress] | None = None
) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    terms = Terms(budget=budget, prices=prices)
    async with Session.open(driver="loop", task="Do it.", model=model.name, backend=FakeBackend()) as session:
        seen = [] if seen is None else seen
        return await drive(session, model, "Do it.", terms=terms, on_progress=seen.append), model


def growing(count: int, *, tokens_in: int = 4_000, more: int = 1_000, tokens_out: int = 200) -> list[Response]:
    """Return turns of which each one's input is larger than the one's before."""
    return [used(calls(f"log({number})"), tokens_in + more * number, tokens_out) for number in range(count)]


def summing_up(outcome: Outcome, model: ScriptedModel) -> tuple[str, str | None, list[bool]]:
    return outcome.status, outcome.summary, [request.may_call for request in model.requests]


def told(model: ScriptedModel) -> list[tuple[int, str]]:
    """Return what the model was told in messages of their own: the request that one came with first, its text."""
    found, known = list[tuple[int, str]](), 1
    for number, request in enumerate(model.requests, 1):
        messages = [item for item in request.history if item.get("role") == "user"]
        found += [(number, item["content"][0]["text"]) for item in messages[known:]]  # type: ignore[index, misc, call-overload]
        known = len(messages)
    return found


def asked(tokens: int) -> Request:
    return Request("x" * 4 * tokens, (), ())


# what fits


def test_first_request_is_estimated_whole_and_the_summarys_tokens_are_kept_back():
    turn = 5_000 + 200 + OUTPUT_TOKENS
    summary = turn + ANSWER_TOKENS + 200 + OUTPUT_TOKENS
    assert Meter(Budget(tokens=turn + summary)).take_turn(asked(5_000)) is None
    assert Meter(Budget(tokens=turn + summary - 1)).take_turn(asked(5_000)) == (
        f"one more turn could exceed {turn + summary - 1:,} tokens, of which 0 are used"
    )


def test_next_request_is_what_the_last_response_said_and_what_is_new():
    meter = Meter(Budget(tokens=50_000))
    request = asked(1_000)
    assert meter.take_turn(request) is None
    meter.took(request, used(calls("log(1)"), 20_000, 300))
    grown = Request(request.instructions, (user_item("y" * 4_000),), ())
    assert meter._known.expected(grown) == pytest.approx(20_300 + 1_000, abs=20)
    assert meter.tokens == 20_300


def test_what_was_left_out_of_the_history_makes_the_next_request_smaller():
    meter = Meter(Budget(tokens=100_000))
    large = Request("", (user_item("y" * 40_000),), ())
    meter.take_turn(large)
    meter.took(large, used(says("."), 12_000, 100))
    assert meter._known.expected(Request("", (user_item("y"),), ())) == pytest.approx(2_100, abs=20)
    assert meter._known.expected(Request("", (), ())) >= 0


def test_answer_and_response_are_taken_to_be_as_large_as_the_largest_so_far():
    meter = Meter(Budget(tokens=10**6))
    first = asked(100)
    meter.took(first, used(calls("log(1)"), 100, 7_000))
    meter.took(Request(first.instructions, (user_item("y" * 80_000),), ()), used(calls("log(1)"), 27_000, 10))
    assert (meter._longest_output, meter._longest_answers) == (7_000, pytest.approx(20_000, abs=20))


def test_tokens_of_a_server_that_counts_none_are_estimated():
    meter = Meter(Budget(tokens=10**6), prices=DIMES, model="scripted")
    meter.took(asked(1_000), used(says("z" * 4_000), 0, 0))
    assert meter.tokens == pytest.approx(2_000, abs=30)
    assert meter._money == pytest.approx(0.11, abs=0.01)
    assert meter.cost is None, "an estimate is no bill"


@given(
    limit=st.integers(5_000, 80_000),
    turns=st.lists(st.tuples(st.integers(0, OUTPUT_TOKENS), st.integers(0, ANSWER_TOKENS)), min_size=20, max_size=20),
)
@settings(max_examples=25, deadline=None, derandomize=True, database=None)
def test_whatever_comes_the_budget_holds_and_so_does_the_summary(limit: int, turns: list[tuple[int, int]]):
    """Responses and answers as large as they are taken to be, at most; larger ones break one budget, and no second one."""
    price = Price(model="scripted", input=10, output=100, cached_input=1)
    for budget in (Budget(turns=21, tokens=limit), Budget(turns=21, money=limit / 100_000)):
        meter = Meter(budget, prices=Prices((price,)), model="scripted")
        size, cost = 1_000, 0.0
        for put_out, answers in turns:
            request = asked(size)
            if meter.take_turn(request) is not None:
                break
            one = used(response(), size, put_out)
            meter.took(request, one)
            cost += price.of(one.usage)
            size += put_out + answers
        if meter.turns:
            assert meter.may_sum_up(asked(size))
            assert meter.tokens + size + OUTPUT_TOKENS <= (budget.tokens or 10**9)
            assert cost + price.of(Usage(size, OUTPUT_TOKENS)) <= (budget.money or 10**9)


async def test_tokens_are_not_exceeded_and_the_summary_is_there():
    outcome, model = await driven([*growing(4), used(says(SUMMARY), 8_000, 300)], Budget(tokens=43_000))
    assert summing_up(outcome, model) == ("budget", SUMMARY, [True] * 4 + [False])
    assert (
        outcome.reason == "The budget was spent (one more turn could exceed 43,000 tokens, of which 22,800 are used)."
    )
    assert outcome.usage.total_tokens == 31_100


async def test_money_is_not_exceeded_and_the_summary_is_there():
    outcome, model = await driven([*growing(4), used(says(SUMMARY), 8_000, 300)], Budget(money=0.65))
    assert summing_up(outcome, model) == ("budget", SUMMARY, [True] * 4 + [False])
    assert outcome.reason == "The budget was spent (one more turn could exceed $0.6500, of which $0.3000 is spent)."
    assert outcome.cost == pytest.approx(DIME.of(Usage(30_000, 1_100)))
    assert outcome.price == DIME.words


async def test_budget_that_does_not_hold_one_turn_asks_for_nothing():
    for budget in (Budget(tokens=2_000), Budget(money=0.01)):
        outcome, model = await driven([], budget)
        assert (outcome.status, outcome.summary, model.requests) == ("budget", None, [])
        assert str(outcome.reason).startswith(
            "The budget does not hold a turn and the summary behind it (one more turn"
        )


async def test_summary_that_would_break_the_budget_is_not_asked_for():
    """An answer may be larger than any before it."""
    flood = used(calls("log('x' * 11_000)", "log('x' * 11_000)", "log('x' * 11_000)"), 3_000, 500)
    outcome, model = await driven([flood], Budget(tokens=13_500))
    assert (outcome.status, outcome.summary, len(model.requests)) == ("budget", None, 1)
    assert str(outcome.reason).endswith("and does not hold a summary; none was asked for.")
    assert outcome.usage.total_tokens <= 13_500


# what is told


async def test_model_is_told_once_what_is_left_of_its_turns():
    outcome, model = await driven([*[calls(f"log({n})") for n in range(8)], says("Half.")], Budget(turns=8))
    first, last = told(model)
    assert first == (
        7,
        "This is left of the budget of this task: 2 turns of 8. When it is spent, no further call is executed. Do first what "
        "matters most, and finish in time.",
    )
    assert last[0] == 9
    assert outcome.status == "budget"


async def test_each_thing_that_is_counted_is_told_once():
    turns = [used(calls(f"log({n})"), 2_000, 100) for n in range(23)]
    _, model = await driven([*turns, says("Done.")], Budget(turns=40, cells=28, tokens=60_000, money=100))
    assert [(number, text.partition(". When")[0]) for number, text in told(model)] == [
        (22, "This is left of the budget of this task: 7 cells of 28"),
        (23, "This is left of the budget of this task: 13,800 tokens of 60,000"),
    ]


def test_all_that_is_nearly_spent_is_told_together_in_words():
    clock = FakeClock()
    meter = Meter(
        Budget(turns=4, cells=4, seconds=40, tokens=10_000, money=2), clock.now, prices=DIMES, model="scripted"
    )
    assert meter.news() is None
    meter.turns, meter.cells = 3, 3
    clock._now_s = 30.0
    meter.took(asked(1_000), used(says("."), 4_500, 4_500))
    meter.took(asked(1_000), used(says("."), 500, 10_000))
    assert meter.news() == (
        "This is left of the budget of this task: 1 turn of 4; 1 cell of 4; 10 seconds of 40; 0 tokens of 10,000; $0.5000 of "
        "$2.00. When it is spent, no further call is executed. Do first what matters most, and finish in time."
    )
    assert meter.news() is None


async def test_nothing_is_told_below_three_quarters():
    _, model = await driven([*[calls(f"log({n})") for n in range(2)], says("Done.")], Budget(turns=4))
    assert told(model) == []


async def test_what_is_told_stands_behind_the_answers_and_never_in_them():
    _, model = await driven([*[calls(f"log({n})") for n in range(3)], says("Done.")], Budget(turns=4))
    *_, answer, message = model.requests[3].history
    assert (answer["type"], message["type"], message["role"]) == ("function_call_output", "message", "user")
    assert "budget" not in str(
        [item for item in model.requests[3].history if item.get("type") == "function_call_output"]
    )


# what it costs


async def test_price_that_is_not_known_counts_as_the_worst_and_is_said_once():
    seen: list[Progress] = []
    dear = Prices((Price(model="other", input=100, output=1000), Price(model="cheap", input=1, output=1)))
    turns = [used(calls("log(1)"), 3_000, 100), used(says("Done."), 3_300, 50)]
    outcome, model = await driven(turns, Budget(money=100), prices=dear, seen=seen)
    notes = [r for r in read_run(outcome.run_dir).records if isinstance(r, Note) and r.topic == "price"]
    assert [note.text for note in notes] == [one.text for one in seen if isinstance(one, Cautioned)]
    (note,) = notes
    assert note.text == (
        "What 'scripted' costs is not known, so it counts as the dearest of the table: $100 per million input tokens, $100 "
        "cached, $1000 output (other, by a table of your own). An entry for it in a table of your own changes that; where it "
        "costs nothing, with input = 0 and output = 0."
    )
    assert (outcome.status, outcome.cost, outcome.price) == ("done", None, None)
    assert told(model) == []
    spent, _ = await driven(turns, Budget(money=1), prices=dear)
    assert (spent.status, spent.turns) == ("budget", 0)


async def test_price_that_is_not_known_is_nothing_to_be_told_where_no_money_is_counted():
    outcome, _ = await driven([says("Done.")], Budget())
    seen: list[Progress] = []
    await driven([says("Done.")], Budget(), prices=Prices(), seen=seen)
    assert [one for one in seen if isinstance(one, Cautioned)] == []
    assert outcome.cost is not None


async def test_model_that_costs_nothing_spends_no_money():
    free = Prices((Price(model="scripted", input=0, output=0),))
    outcome, _ = await driven([*growing(5), says("Done.")], Budget(money=0.01), prices=free)
    assert (outcome.status, outcome.cost) == ("done", 0)


def test_another_model_that_is_asked_instead_costs_what_it_does():
    dear = Price(model="dear", input=20, output=200)
    meter = Meter(Budget(money=1), prices=Prices((DIME, dear)), model="scripted")
    meter.took(asked(1_000), used(says("."), 1_000, 100))
    meter.asks("dear")
    meter.took(asked(1_000), used(says("."), 1_000, 100))
    assert (meter.cost, meter.price) == (pytest.approx(0.06), dear)
    meter.asks("unknown")
    assert (meter.cost, meter.price, meter.caution is None) == (None, None, False)
    meter.took(asked(1_000), used(says("."), 1_000, 100))
    meter.asks("dear")
    assert (meter.cost, meter.caution) == (None, None)


async def test_model_that_is_asked_again_after_another_one_costs_what_it_does():
    """Its stand-in costs ten times as much, for one turn."""
    now, prices = [0.0], Prices((Price(model="one", input=1, output=0), Price(model="two", input=10, output=0)))
    gone = ModelError("The server is busy.", may_pass=True)
    one = ScriptedModel([gone, used(says("Done."), 1_000_000, 0)], name="one")
    two = ScriptedModel([used(calls("log(1)"), 1_000_000, 0)], name="two")
    model = FallbackModel([one, two], clock=lambda: now[0])

    def see(progress: Progress) -> None:
        now[0] += BACK_AFTER_S * isinstance(progress, CellEnded)

    async with Session.open(driver="loop", task="Do it.", model=model.name, backend=FakeBackend()) as session:
        outcome = await drive(session, model, "Do it.", terms=Terms(prices=prices), on_progress=see)
    assert (outcome.cost, len(one.requests), len(two.requests)) == (pytest.approx(11), 2, 1)


async def test_price_of_a_stand_in_that_is_not_known_is_said_when_it_is_asked():
    gone = ModelError("The server is busy.", may_pass=True)
    one = ScriptedModel([gone], name="scripted")
    model = FallbackModel([one, ScriptedModel([calls("log(1)"), says("Done.")], name="two")])
    async with Session.open(driver="loop", task="Do it.", model=model.name, backend=FakeBackend()) as session:
        outcome = await drive(session, model, "Do it.", terms=Terms(prices=DIMES, budget=Budget(money=100)))
    notes = [r.text for r in read_run(outcome.run_dir).records if isinstance(r, Note) and r.topic == "price"]
    assert ["'two' costs is not known" in note for note in notes] == [True]


async def test_money_without_any_price_is_refused():
    with pytest.raises(UsageError, match="needs a table of prices"):
        Meter(Budget(money=1))


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"money": 0}, {"money": -0.5}, {"money": float("nan")}])
def test_budget_of_no_tokens_or_money_is_refused(wrong: dict[str, float]):
    with pytest.raises(UsageError, match="allows nothing"):
        Budget(**wrong)  # type: ignore[arg-type]


async def test_failed_request_costs_nothing_here_and_pictures_are_counted_in_the_record():
    outcome, _ = await driven([used(calls("log(1)"), 3_000, 10), ModelError("Gone.")], Budget(tokens=50_000))
    assert (outcome.status, outcome.usage.total_tokens) == ("failed", 3_010)
    requests = [r for r in read_run(outcome.run_dir).records if isinstance(r, ModelRequest)]
    assert [request.image_patches for request in requests] == [0, 0]


async def test_run_takes_its_prices_from_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "scr*"\ninput = 1000\noutput = 0')
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(tmp_path / "prices.toml"))
    outcome = await run("Do it.", model=ScriptedModel([says("Done.")]), backend=FakeBackend())
    assert outcome.cost == pytest.approx(0.1)
    assert str(tmp_path / "prices.toml") in str(outcome.price)
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(tmp_path / "none.toml"))
    backend = FakeBackend()
    with pytest.raises(UsageError):
        await run("Do it.", model=ScriptedModel([]), backend=backend)
    assert backend.made == []


async def test_calls_beside_a_spent_cell_are_answered_without_being_executed():
    both = response(*(item.raw for item in calls("log(1)", "log(2)").items))
    outcome, model = await driven([both, says(SUMMARY)], Budget(cells=1))
    assert (outcome.status, outcome.cells, outcome.summary) == ("budget", 1, SUMMARY)
    assert [number for number, _ in told(model)] == [2], "only that it is spent: what is left is nothing"


@pytest.mark.parametrize(("tokens", "asked", "status"), [(100_000, [False, True], "done"), (38_000, [False], "budget")])
async def test_a_history_is_summed_up_to_go_on_with_it_and_not_for_the_last_words(
    tokens: int, asked: list[bool], status: str
):
    turns = [used(calls(f"log('{'x' * 11_000}')"), 2_000 + 3_000 * number, 200) for number in range(3)]
    rest = [used(says("Long texts were logged."), 8_000, 100), used(says("Done."), 6_000, 100)][: len(asked)]
    model = ScriptedModel([*turns, *rest])
    terms = Terms(budget=Budget(tokens=tokens), prices=DIMES, sending=Sending(compact_at=14_000))
    async with Session.open(driver="loop", task="Do it.", model=model.name, backend=FakeBackend()) as session:
        outcome = await drive(session, model, "Do it.", terms=terms)
    assert [request.may_call for request in model.requests] == [True, True, True, *asked]
    assert (outcome.status, outcome.usage.total_tokens <= tokens) == (status, True)
