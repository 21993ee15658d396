"""Where a model gives no answer, the next one is asked for that turn, and the first again after a while."""

from __future__ import annotations

import pytest

from cellwright.errors import ModelError
from cellwright.model.base import AskedOtherwise, Heard, Request
from cellwright.model.fallback import BACK_AFTER_S, FallbackModel
from cellwright.testing.clock import FakeClock
from cellwright.testing.model import ScriptedModel, says

ASKED = Request("Be good.", ({"type": "message", "role": "user", "content": "Do it."},), ())


def gone(waited_ms: int = 0) -> ModelError:
    return ModelError("The server is busy.", refused_with=503, may_pass=True, waited_ms=waited_ms)


def two(first: list, second: list) -> tuple[FallbackModel, FakeClock]:
    clock = FakeClock()
    models = [ScriptedModel(first, name="one"), ScriptedModel(second, name="two")]
    return FallbackModel(models, clock=clock.now), clock


async def test_first_is_asked_while_it_answers() -> None:
    model, _ = two([says("Hi.")], [])
    assert (model.name, (await model.respond(ASKED, [].append)).messages[0].text) == ("one", "Hi.")


async def test_next_is_asked_for_the_same_turn_and_that_is_told() -> None:
    model, _ = two([gone(waited_ms=700)], [says("Hi.")])
    heard: list[Heard] = []
    response = await model.respond(ASKED, heard.append)
    told = [one for one in heard if isinstance(one, AskedOtherwise)]
    assert (response.messages[0].text, response.waited_ms) == ("Hi.", 700)
    assert [(one.model, one.parameters["model"]) for one in told] == [("two", "two")]
    assert told[0].reason == "The server is busy. two is asked instead."


async def test_it_goes_on_for_a_while_and_then_the_first_is_asked_again() -> None:
    model, clock = two([gone(), says("I am back.")], [says("a"), says("b")])
    for _ in range(2):
        await model.respond(ASKED, [].append)
        assert (model.name, model.parameters(ASKED)["model"]) == ("two", "two")
    await clock.advance(BACK_AFTER_S)
    assert model.name == "one"
    assert (await model.respond(ASKED, [].append)).messages[0].text == "I am back."


async def test_first_that_is_still_gone_costs_one_more_try_a_while() -> None:
    model, clock = two([gone(), gone()], [says("a"), says("b"), says("c")])
    await model.respond(ASKED, [].append)
    await clock.advance(BACK_AFTER_S)
    await model.respond(ASKED, [].append)
    assert model.name == "two"
    assert (await model.respond(ASKED, [].append)).messages[0].text == "c"


async def test_refusal_that_does_not_pass_is_no_reason_to_ask_another() -> None:
    model, _ = two([ModelError("No such parameter.", refused_with=400)], [says("never")])
    with pytest.raises(ModelError, match="No such parameter"):
        await model.respond(ASKED, [].append)


async def test_where_all_are_gone_the_last_ones_error_is_the_error() -> None:
    model, _ = two([gone(300)], [ModelError("Two is busy.", may_pass=True, waited_ms=200)])
    with pytest.raises(ModelError, match="Two is busy") as caught:
        await model.respond(ASKED, [].append)
    assert caught.value.waited_ms == 500


async def test_second_that_goes_asks_the_first_again() -> None:
    model, _ = two([gone(), says("I am back.")], [says("a"), gone()])
    await model.respond(ASKED, [].append)
    assert (await model.respond(ASKED, [].append)).messages[0].text == "I am back."
    assert model.name == "one"


async def test_all_are_closed() -> None:
    models = [ScriptedModel([]), ScriptedModel([])]
    await FallbackModel(models).close()
    assert [model.closed for model in models] == [True, True]
