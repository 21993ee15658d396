"""One gate a server: evenly, in order, and shut for all when the server says to wait. The clock goes only when it is told to."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest

from cellwright.model.limiter import MARGIN, Limiter, limiter_of
from cellwright.testing.clock import FakeClock


def gate(clock: FakeClock, per_second: float | None = None, chance: float = 0.5) -> Limiter:
    async def sleep(duration_s: float) -> None:
        await clock.until(clock.now() + duration_s, asyncio.Event())

    return Limiter(per_second, clock=clock.now, sleep=sleep, chance=lambda: chance)


async def passed(limiter: Limiter, clock: FakeClock, count: int, for_s: float) -> list[tuple[int, float]]:
    """Return who passed, and when, of so many who came at once."""
    through: list[tuple[int, float]] = []

    async def come(number: int) -> None:
        (await limiter.turn()).sent()
        through.append((number, round(clock.now(), 3)))

    coming = [asyncio.ensure_future(come(number)) for number in range(count)]
    await clock.advance(for_s)
    for one in coming:
        one.cancel()
    await asyncio.gather(*coming, return_exceptions=True)
    return through


async def test_without_a_rate_all_pass_at_once() -> None:
    clock = FakeClock()
    assert await passed(gate(clock), clock, 3, 0) == [(0, 0), (1, 0), (2, 0)]


async def test_requests_are_spaced_and_pass_in_the_order_in_which_they_came() -> None:
    clock = FakeClock()
    through = await passed(gate(clock, 10), clock, 5, 10)
    assert [number for number, _ in through] == [0, 1, 2, 3, 4]
    gaps = [later - earlier for (_, earlier), (_, later) in pairwise(through)]
    assert all(gap >= MARGIN / 10 - 0.001 for gap in gaps)
    assert through[-1][1] < 4 * MARGIN / 10 * 1.05


async def test_no_more_than_allowed_in_any_second() -> None:
    clock = FakeClock()
    moments = [moment for _, moment in await passed(gate(clock, 10), clock, 50, 60)]
    assert len(moments) == 50
    assert max(sum(start <= moment < start + 1 for moment in moments) for start in moments) <= 10


async def test_next_one_waits_until_the_last_request_has_left() -> None:
    """Between its turn and its leaving, a busy event loop may do much else."""
    clock = FakeClock()
    limiter = gate(clock, 10)
    slow = await limiter.turn()
    second = asyncio.ensure_future(limiter.turn())
    await clock.advance(0.7)
    assert not second.done()
    slow.sent()
    await clock.advance(0.099)
    assert not second.done()
    await clock.advance(0.01)
    assert second.done()


async def test_request_that_never_leaves_does_not_shut_the_gate() -> None:
    clock = FakeClock()
    limiter = gate(clock, 10)
    await limiter.turn()
    second = asyncio.ensure_future(limiter.turn())
    await clock.advance(3)
    assert second.done()


async def test_pause_holds_for_all_and_they_do_not_come_back_at_once() -> None:
    clock = FakeClock()
    chances = iter([0.0, 0.5, 1.0])
    limiter = gate(clock)
    limiter._chance = lambda: next(chances)
    limiter.pause(2)
    assert await passed(limiter, clock, 3, 10) == [(0, 2.0), (1, 2.25), (2, 2.5)]


async def test_shorter_pause_does_not_end_a_longer_one() -> None:
    clock = FakeClock()
    limiter = gate(clock, chance=0)
    limiter.pause(5)
    limiter.pause(1)
    assert await passed(limiter, clock, 1, 10) == [(0, 5.0)]


async def test_whoever_stops_waiting_leaves_the_queue() -> None:
    clock = FakeClock()
    limiter = gate(clock, 1)
    assert await passed(limiter, clock, 3, 0) == [(0, 0)]
    await clock.advance(MARGIN)
    assert await passed(limiter, clock, 1, 0) == [(0, MARGIN)]


async def test_gate_is_one_a_server_and_the_lower_rate_holds() -> None:
    one = limiter_of("http://limited.test/v1", 10)
    assert limiter_of("http://limited.test/v1/") is one
    assert limiter_of("http://other.test/v1") is not one
    spacing = one._spacing_s
    limiter_of("http://limited.test/v1", 1000)
    assert one._spacing_s == spacing


def test_runs_in_several_threads_share_the_gate() -> None:
    limiter, began = Limiter(500), time.monotonic()

    def run() -> None:
        async def come() -> None:
            for _ in range(5):
                (await limiter.turn()).sent()

        asyncio.run(come())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not limiter._queue
    assert limiter._free_at >= began + 20 * MARGIN / 500  # each of the twenty took a place of its own


@pytest.mark.parametrize("count", [1, 7])
async def test_what_was_waited_is_told(count: int) -> None:
    clock = FakeClock()
    limiter = gate(clock, 1)
    waits: list[float] = []

    async def come() -> None:
        turn = await limiter.turn()
        turn.sent()
        waits.append(turn.waited_s)

    coming = [asyncio.ensure_future(come()) for _ in range(count)]
    await clock.advance(20)
    await asyncio.gather(*coming)
    assert [round(wait, 2) for wait in waits] == [round(number * MARGIN, 2) for number in range(count)]
