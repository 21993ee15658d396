"""So many a second: what is kept of a silence, and what more than was there costs."""

from __future__ import annotations

from cellwright_kernel.late_pace import BURST_BYTES, BYTES_PER_S
from cellwright_kernel.pace import Pace


def test_after_a_burst_it_is_so_much_a_second() -> None:
    """As the pipes of ended cells are read: how much it was is known afterwards."""
    now = 100.0
    pace = Pace(BYTES_PER_S, burst=BURST_BYTES, clock=lambda: now)
    read, piece = 0, 64 * 1024
    for hundredth in range(1000):
        now = 100.0 + hundredth / 100
        while not pace.wait_s():
            pace.spend(piece)
            read += piece
    assert abs(read - (BURST_BYTES + 9.99 * BYTES_PER_S)) <= piece


def test_a_silence_is_saved_up_to_one_burst() -> None:
    now = 100.0
    pace = Pace(2, burst=5, clock=lambda: now)
    assert [pace.take() for _ in range(6)] == [0.0] * 5 + [0.5]
    now += 0.5
    assert (pace.take(), pace.take()) == (0.0, 0.5)
    now += 3600
    assert [pace.take() for _ in range(6)].count(0.0) == 5


def test_more_than_there_was_is_waited_for() -> None:
    now = 100.0
    pace = Pace(2, burst=5, clock=lambda: now)
    pace.spend(8)
    assert pace.wait_s() == 2.0
    now += 2.0
    assert pace.wait_s() == 0.0
