"""An idle session takes no more memory than is promised; measured as `cellwright bench` does, beside a naive build."""

from __future__ import annotations

import os

import pytest

from cellwright.bench import sessions
from cellwright.bench.processes import below

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

WITHOUT_BROWSER_MB = 200
WITH_BROWSER_MB = 700


def test_an_idle_session_is_small_and_the_benchmark_leaves_nothing_running() -> None:
    there = {process.pid for process in below(os.getpid())}
    rows = {row.what: row for row in sessions.measure()}
    assert list(rows) == [
        "cold session without browser, first answer",
        "cold session, first answer",
        "idle session without browser, PSS",
        "idle session, both languages attached, PSS",
    ]
    assert 0 < rows["idle session without browser, PSS"].ours < WITHOUT_BROWSER_MB
    assert 0 < rows["idle session, both languages attached, PSS"].ours < WITH_BROWSER_MB
    assert {process.pid for process in below(os.getpid())} - there == set()
