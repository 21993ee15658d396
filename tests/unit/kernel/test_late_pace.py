"""How fast the pipes of ended cells are read."""

from __future__ import annotations

import pytest

from cellwright_kernel import late_pace
from cellwright_kernel.late_pace import BURST_BYTES, BYTES_PER_S, LatePace


def test_after_a_burst_it_is_so_much_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(late_pace.time, "monotonic", lambda: now)
    pace = LatePace()
    read, piece = 0, 64 * 1024
    for hundredth in range(1000):
        now = 100.0 + hundredth / 100
        while pace.allows():
            pace.spend(piece)
            read += piece
    assert abs(read - (BURST_BYTES + 9.99 * BYTES_PER_S)) <= piece


def test_quiet_is_saved_up_to_one_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(late_pace.time, "monotonic", lambda: now)
    pace = LatePace()
    now = 200.0
    assert pace.allows()
    pace.spend(BURST_BYTES)
    assert not pace.allows()
