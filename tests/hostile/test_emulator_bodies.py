"""Bodies of requests and scripts made up by the hundred: a request is taken, or refused as the API does it; a script is one, or says why not."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_sdk_types import BODY

from cellwright.emulator.outputs import faulty, faulty_names
from cellwright.emulator.playing import output_of
from cellwright.emulator.protocol import Refused, conversation
from cellwright.emulator.script import Script
from cellwright.emulator.streaming import events_of
from cellwright.emulator.turns import Playing
from cellwright.errors import UsageError

pytestmark = pytest.mark.slow

MANY = settings(max_examples=150, deadline=None, derandomize=True, database=None)
WORDS = st.sampled_from(
    ("message", "function_call", "input_image", "type", "id", "rs_t1_0123456789ab", "call_id", "", "x")
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | WORDS | st.text(max_size=8),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(WORDS, below, max_size=4),
    max_leaves=10,
)
SCRIPT = Script.parse("fault: malformed_arguments\n```call f\n{}\n```\n---\nDone.")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place in a body."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, part in below for place in places(part, (*path, name)))]


PLACES = places(BODY)[1:]


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    body = copy.deepcopy(BODY)
    at: Any = body
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return body


def refusal(kind: type[Exception], call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except kind as error:
        return error
    return None


def is_taken(body: Any) -> bool:
    """Hand a body in; when it was refused, that was in words."""

    def played() -> None:
        asked = conversation(body, {})
        playing = Playing(SCRIPT)
        answer = playing.answer(playing.due(asked), asked)
        assert events_of(answer.response)
        assert json.dumps(answer.response)

    refused = refusal(Refused, played)
    if isinstance(refused, Refused):
        assert set(refused.body()["error"]) == {"message", "type", "param", "code"}
        assert str(refused)
    return refused is None


@MANY
@given(st.sampled_from(PLACES), ANYTHING)
def test_body_with_anything_in_one_place_is_taken_or_refused(path: tuple[Any, ...], value: Any):
    is_taken(changed(path, value))


@MANY
@given(ANYTHING)
def test_body_that_is_anything_is_taken_or_refused(body: Any):
    is_taken(body)


@MANY
@given(st.lists(st.sampled_from(BODY["input"]) | ANYTHING, max_size=6))
def test_items_in_any_order_are_taken_or_refused(items: list[Any]):
    is_taken({"model": "m", "input": items})


def test_body_that_is_as_it_should_be_is_taken():
    body = changed(("input", 4, "output"), "1")
    body["tools"][0]["strict"] = False
    assert is_taken(body)


@MANY
@given(
    st.lists(st.dictionaries(WORDS | st.just("type"), ANYTHING, max_size=5), max_size=4),
    st.sampled_from(sorted(faulty_names())),
)
def test_every_fault_can_happen_to_any_items_of_a_script(items: list[dict[str, Any]], name: str):
    asked = conversation({"model": "m", "input": "x", "tools": [BODY["tools"][1]]}, {})
    turn = Script.parse(json.dumps({"turns": [{"say": "x"}]}), form="yaml").turns[0]
    output = output_of(dataclasses.replace(turn, output=tuple(items)), "t1_0", asked)
    response = faulty(name, {"id": "r", "status": "completed", "output": output, "usage": {}}, "t1_0", asked)
    assert response is None or events_of(response)


@MANY
@given(ANYTHING | st.builds(lambda turns: {"turns": turns}, ANYTHING | st.lists(ANYTHING, max_size=3)))
def test_yaml_that_is_anything_is_a_script_or_says_why_not(value: Any):
    refused = refusal(UsageError, lambda: Script.parse(json.dumps(value), form="yaml"))
    assert refused is None or "Nothing was started." in str(refused)


@MANY
@given(st.text(alphabet="turnsay:-&*[]{}!|>'\"#%@`\n\t 1", max_size=60))
def test_text_that_is_anything_is_a_script_or_says_why_not(text: str):
    for form in ("yaml", "markdown"):
        refused = refusal(UsageError, partial(Script.parse, text, form=form))
        assert refused is None or "Nothing was started." in str(refused)
