"""A cell as the body of a function: every line of `bodies.jsonl`, and that the function does what the cell did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.replay.export_cells import as_body

ROWS = [json.loads(line) for line in Path(__file__).with_name("bodies.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["title"]) for row in ROWS])
def test_body_of_a_cell(row: dict[str, str | None]) -> None:
    body = as_body(row["code"] or "")
    assert (None if body is None else "\n".join(body)) == row["body"]


@pytest.mark.parametrize("depth", [200, 100_000])
def test_code_that_is_nested_too_deep_stays_a_text(depth: int) -> None:
    assert as_body("(" * depth + ")" * depth) is None
