"""The ladder, with a clock that goes when it is told to."""

import asyncio

import pytest

from cellwright.testing.clock import FakeClock
from cellwright_kernel.deadline import TOP_S, Ladder
from cellwright_kernel.wire import Rung


class Climb:
    def __init__(self, deadline_s: float) -> None:
        self.clock = FakeClock(100)
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
    await climb.clock.advance(9.9)
    assert (climb.done, climb.ladder.rung) == ([], None)


async def test_the_deadline_interrupts(climb):
    await climb.clock.advance(10)
    assert climb.done == [(10, "interrupt")]
    assert (climb.ladder.rung, climb.ladder.asked) == ("interrupt", False)


async def test_an_interrupt_that_is_not_obeyed_is_repeated_then_the_rungs_follow_a_second_apart(climb):
    for _ in range(131):
        await climb.clock.advance(0.1)
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
    await climb.clock.advance(10 + TOP_S - 0.01)
    assert not climb.task.done()
    await climb.clock.advance(0.01)
    assert climb.task.done()
    assert TOP_S < 3


async def test_an_interrupt_after_killing_children_does_not_lower_the_rung(climb):
    await climb.clock.advance(11.5)
    assert climb.done[-1][1] == "interrupt"
    assert climb.ladder.rung == "kill_children"


async def test_asking_brings_the_deadline_forward(climb):
    await climb.clock.advance(1)
    climb.ladder.ask()
    await climb.clock.advance(0)
    assert climb.done == [(1, "interrupt")]
    assert climb.ladder.asked
    await climb.clock.advance(2)
    assert climb.done[-1] == (3, "kill_kernel")


async def test_asking_for_the_kernels_end_skips_the_lower_rungs(climb):
    climb.ladder.ask("kill_kernel")
    await climb.clock.advance(0)
    assert climb.done == [(0, "kill_kernel")]


async def test_asking_once_the_ladder_is_climbed_changes_nothing(climb):
    await climb.clock.advance(10)
    climb.ladder.ask()
    assert not climb.ladder.asked


async def test_code_that_has_stopped_is_left_alone_until_the_top(climb):
    climb.ladder.has_stopped = True
    await climb.clock.advance(10 + TOP_S - 0.01)
    assert (climb.done, climb.ladder.rung, climb.task.done()) == ([], None, False)
    await climb.clock.advance(0.01)
    assert climb.task.done()


async def test_code_that_stops_at_an_interrupt_gets_no_second_one(climb):
    await climb.clock.advance(10)
    climb.ladder.has_stopped = True
    await climb.clock.advance(TOP_S)
    assert climb.done == [(10, "interrupt")]
    assert climb.ladder.rung == "interrupt"


async def test_a_kernel_whose_end_is_wanted_is_ended_though_its_cell_has_stopped(climb):
    climb.ladder.has_stopped = True
    climb.ladder.ask("kill_kernel")
    await climb.clock.advance(0)
    assert climb.done == [(0, "kill_kernel")]


async def test_a_deadline_that_is_held_does_not_come_and_is_later_by_that_time(climb):
    await climb.clock.advance(4)
    climb.ladder.hold()
    await climb.clock.advance(1000)
    assert climb.done == []
    climb.ladder.release()
    await climb.clock.advance(5.9)
    assert climb.done == []
    await climb.clock.advance(0.1)
    assert climb.done == [(1010, "interrupt")]


async def test_a_deadline_that_two_hold_runs_on_when_both_have_let_go(climb):
    climb.ladder.hold()
    await climb.clock.advance(20)
    climb.ladder.hold()
    climb.ladder.release()
    await climb.clock.advance(20)
    climb.ladder.release()
    await climb.clock.advance(9.9)
    assert climb.done == []
    await climb.clock.advance(0.1)
    assert climb.done == [(50, "interrupt")]


async def test_one_who_asks_for_the_end_of_a_held_cell_has_it_at_once(climb):
    climb.ladder.hold()
    await climb.clock.advance(20)
    climb.ladder.ask()
    await climb.clock.advance(0)
    climb.ladder.release()
    await climb.clock.advance(1)
    assert climb.done[0] == (20, "interrupt")
    assert climb.done[-1] == (21, "kill_children")
    assert climb.ladder.asked
