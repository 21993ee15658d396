"""Files of prompts that a regular expression would read for hours: each is read in one go."""

from __future__ import annotations

import time

import pytest
from tests.waiting import GUARD_S

from cellwright.prompts.templates import SYSTEM, filled

LONG = {
    "marks without an end": "<!--" * 60_000,
    "marks of which one ends": "<!--\n" * 50_000 + "x-->y",
    "blanks in a mark": f"<!-- x{' ' * 250_000}y -->",
    "blanks in a line": f"{' ' * 250_000}x",
    "marks in a line": "<!-- x -->" * 25_000 + "y",
}


@pytest.mark.parametrize("what", LONG)
def test_long_file_is_read_in_one_go(what: str) -> None:
    began = time.monotonic()
    filled(LONG[what], SYSTEM, facts=(), values={})
    assert time.monotonic() - began < GUARD_S / 3
