"""The ladder, with a clock that jumps."""

import asyncio

import pytest

from cellwright_kernel.deadline import TOP_S, Ladder
from cellwright_kernel.wire import Rung


class JumpingClock:
    """Stands still until told to move; whoever waits is let go when his moment has come."""

    def __init__(self) -> None:
        self._now = 100.0

    def now(self) -> float:
        return self._now

    async def until(self, moment: float, earlier: asyncio.Event) -> None:
        while self._now < moment and not earlier.is_set():  # noqa: ASYNC110 - one turn of the loop, no waiting
            await asyncio.sleep(0)

    async def jump(self, seconds: float) -> None:
        self._now = round(self._now + seconds, 3)
        for _ in range(20):
            await asyncio.sleep(0)


class Climb:
    def __init__(self, deadline_s: float) -> None:
        self.clock = JumpingClock()
        self.ladder = Ladder(deadline_s, self.clock)
        self.done: list[tuple[float, Rung]] = []

    async def act(self, rung: Rung) -> None:
        self.done.append((round(self.clock.now() - 100, 3), rung))


@pytest.fixture
async def climb():
    climb = Climb(10)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(climb.ladder.climb(climb.act))
        climb.task = task
        yield climb
        task.cancel()


async def test_nothing_is_done_before_the_deadline(climb):
    await climb.clock.jump(9.9)
    assert (climb.done, climb.ladder.rung) == ([], None)


async def test_the_deadline_interrupts(climb):
    await climb.clock.jump(10)
    assert climb.done == [(10, "interrupt")]
    assert (climb.ladder.rung, climb.ladder.asked) == ("interrupt", False)


async def test_an_interrupt_that_is_not_obeyed_is_repeated_then_the_rungs_follow_a_second_apart(climb):
    for _ in range(131):
        await climb.clock.jump(0.1)
    assert climb.done == [
        (10, "interrupt"),
        (10.4, "interrupt"),
        (10.8, "interrupt"),
        (11, "kill_children"),
        (11.4, "interrupt"),
        (11.8, "interrupt"),
        (12, "kill_kernel"),
    ]
    assert climb.ladder.rung == "kill_kernel"
    assert climb.task.done()


async def test_the_top_is_reached_before_three_seconds(climb):
    await climb.clock.jump(10 + TOP_S - 0.01)
    assert not climb.task.done()
    await climb.clock.jump(0.01)
    assert climb.task.done()
    assert TOP_S < 3


async def test_an_interrupt_after_killing_children_does_not_lower_the_rung(climb):
    await climb.clock.jump(11.5)
    assert climb.done[-1][1] == "interrupt"
    assert climb.ladder.rung == "kill_children"


async def test_asking_brings_the_deadline_forward(climb):
    await climb.clock.jump(1)
    climb.ladder.ask()
    await climb.clock.jump(0)
    assert climb.done == [(1, "interrupt")]
    assert climb.ladder.asked
    await climb.clock.jump(2)
    assert climb.done[-1] == (3, "kill_kernel")


async def test_asking_for_the_kernels_end_skips_the_lower_rungs(climb):
    climb.ladder.ask("kill_kernel")
    await climb.clock.jump(0)
    assert climb.done == [(0, "kill_kernel")]


async def test_asking_once_the_ladder_is_climbed_changes_nothing(climb):
    await climb.clock.jump(10)
    climb.ladder.ask()
    assert not climb.ladder.asked
