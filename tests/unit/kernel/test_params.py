"""The parameters of a run as a kernel finds them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from cellwright_kernel.params import WHERE, environment, given

SAID = {"city": "Rome", "quoted": '"\n\\'}


@pytest.fixture
def params(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(WHERE, environment(SAID)[WHERE])
    return given()["params"]


def test_they_are_a_dict_to_whatever_wants_one_as_they_are_an_object_in_javascript(params: Any) -> None:
    assert params == SAID
    assert json.loads(json.dumps(params)) == SAID
    assert {**params, "n": "3"} == params | {"n": "3"}
    for other in (params.copy(), copy.copy(params), copy.deepcopy(params), pickle.loads(pickle.dumps(params))):  # noqa: S301 - ours
        other["city"] = "Oslo"
    assert params == SAID


@pytest.mark.parametrize(
    "change",
    [
        lambda params: params.__setitem__("city", "Oslo"),
        lambda params: params.__delitem__("city"),
        lambda params: params.__ior__({"city": "Oslo"}),
        lambda params: params.update(city="Oslo"),
        lambda params: params.setdefault("n", "3"),
        lambda params: params.pop("city"),
        lambda params: params.popitem(),
        lambda params: params.clear(),
    ],
)
def test_code_cannot_change_them(params: Any, change: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="params does not support item assignment"):
        change(params)
    assert params == SAID


def test_where_there_are_none_there_is_no_such_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WHERE, raising=False)
    assert environment({}) == given() == {}
