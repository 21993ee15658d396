"""Schemas and answers that would keep somebody busy for ever: each is a fault, soon, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pydantic import JsonValue
from tests.waiting import GUARD_S

from cellwright.checking import _json_in
from cellwright.validity import check_schema, not_valid_in_time

pytestmark = pytest.mark.slow

DOUBLING: dict[str, Any] = {f"d{step}": {"allOf": [{"$ref": f"#/$defs/d{step + 1}"}] * 2} for step in range(60)}
ENDLESS: dict[str, tuple[dict[str, Any], JsonValue]] = {
    "a pattern": ({"pattern": "^(a+)+$"}, "a" * 60 + "!"),
    "a pattern of names": ({"patternProperties": {"^(a+)+$": False}}, {"a" * 60 + "!": 1}),
    "references that double": ({"$ref": "#/$defs/d0", "$defs": {**DOUBLING, "d60": {}}}, 1),
}


@pytest.mark.parametrize("what", ENDLESS)
async def test_comparison_without_end_is_given_up(what: str) -> None:
    schema, value = ENDLESS[what]
    check_schema(schema)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.05)
            beats += 1

    beating = asyncio.create_task(beat())
    async with asyncio.timeout(GUARD_S):
        wrong = await not_valid_in_time(value, schema, within_s=1)
    beating.cancel()
    assert wrong == "it could not be compared with the schema within 1 s."
    assert beats > 5


async def test_comparison_in_a_process_of_its_own_says_what_is_wrong() -> None:
    schema: dict[str, Any] = {"items": {"pattern": "^[a-z]+$"}}
    assert await not_valid_in_time(["a", "é"], schema) == "at $[1]: 'é' does not match '^[a-z]+$'."
    assert await not_valid_in_time(["a", "b"], schema) is None


def test_fence_that_does_not_end_is_read_in_one_go() -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match="Expecting value"):
        _json_in("```\n" + " " * 1_000_000 + "x")
    assert time.monotonic() - began < GUARD_S
