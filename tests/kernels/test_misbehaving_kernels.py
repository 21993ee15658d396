"""Kernels that misbehave, for real. Each test states what the model is told, and that the next cell works.

After each test no process of a kernel is left.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.waiting import GUARD_S, until

from cellwright_kernel import kernel_process, processes, running_cell
from cellwright_kernel.child import NotUp
from cellwright_kernel.kernel_process import KernelProcess
from cellwright_kernel.kernels import Busy, Kernels, NoKernel
from cellwright_kernel.wire import ClosedEvent, Event, Execute, KeptEvent, Output, PieceEvent, Text, gather, in_order

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, str(Path(__file__).with_name("misbehaving_kernel.py")), "-f", "{connection}")


@dataclass
class Found:
    closed: ClosedEvent
    outputs: tuple[Output, ...]
    events: list[Event]
    took_s: float

    @property
    def texts(self) -> list[str]:
        return [o.text for o in self.outputs if isinstance(o, Text) and o.source != "notice"]

    @property
    def notices(self) -> list[str]:
        return [o.text for o in self.outputs if isinstance(o, Text) and o.source == "notice"]


class Session:
    """Posts cells, one after the other."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._number = 0

    async def execute(self, code: str, deadline_s: float = 10.0, *, during: Callable[[], None] | None = None) -> Found:
        self._number += 1
        started = time.monotonic()
        request = Execute(number=self._number, language="python", code=code, deadline_s=deadline_s)
        cell = self.kernels.execute(request)
        events: list[Event] = []
        outputs: dict[int, Output] = {}
        async for batch in cell.events():
            events += batch
            for event in batch:
                gather(outputs, event)
            if during is not None and any(isinstance(event, PieceEvent) for event in batch):
                during()
                during = None
        closed = events[-1]
        assert isinstance(closed, ClosedEvent)
        assert [event for event in events[:-1] if isinstance(event, ClosedEvent)] == []
        return Found(closed, in_order(outputs), events, time.monotonic() - started)


TEST = "CELLWRIGHT_TEST"
"""In the environment of every process of this test run, and of no other's."""


@pytest.fixture
def environment() -> dict[str, str]:
    return {**os.environ, TEST: str(os.getpid())}


@pytest.fixture
async def session(tmp_path: Path, environment: dict[str, str]) -> AsyncIterator[Session]:
    (tmp_path / "home").mkdir()
    processes.become_subreaper()
    kernels = Kernels(str(tmp_path / "home"), tmp_path / "kernels", lambda: environment, commands={"python": COMMAND})
    async with kernels:
        await kernels.start("python")
        yield Session(kernels)
    assert list(of_kernels()) == []


def of_kernels() -> list[str]:
    """Return the command lines of every live process that a kernel of these tests has started, or is one."""
    mark = f"{TEST}={os.getpid()}".encode()
    return [
        process.command
        for process in processes._table()
        if process.state != "Z" and mark in processes._read(process.pid, "environ").split(b"\0")
    ]


async def test_a_kernel_that_behaves_is_left_alone(session):
    found = await session.execute("behave")
    assert (found.closed.status, found.closed.rung, found.texts, found.notices) == ("ok", None, ["fine"], [])
    assert found.took_s < 5


async def test_an_interrupt_that_is_obeyed_keeps_the_kernel(session):
    found = await session.execute("be_interruptible", 0.5)
    assert (found.closed.status, found.closed.rung) == ("timeout", "interrupt")
    assert found.texts == ["waiting", "KeyboardInterrupt"]
    assert found.notices[0].startswith(
        "The cell was interrupted at its deadline of 0.5 s. The Python kernel goes on: variables set so far are kept."
    )
    assert found.took_s < 5
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation, after.notices) == ("ok", 1, [])


async def test_a_kernel_that_ignores_interrupts_is_killed_and_answered_for_within_three_seconds(session):
    found = await session.execute("ignore_sigint", 0.5)
    assert (found.closed.status, found.closed.rung) == ("timeout", "kill_kernel")
    assert found.texts == ["working"]
    assert "All Python variables are gone" in found.notices[0]
    assert 2.4 < found.took_s < 3.5
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation, after.texts) == ("ok", 2, ["fine"])


async def test_a_killed_kernel_that_takes_long_to_be_gone_is_told_of_once(session, monkeypatch):
    """As one is that has gigabytes to give back."""
    kill = KernelProcess.kill
    monkeypatch.setattr(KernelProcess, "kill", lambda self: asyncio.get_running_loop().call_later(1.0, kill, self))
    found = await session.execute("ignore_sigint", 0.5)
    assert (found.closed.rung, len(found.notices)) == ("kill_kernel", 1)
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation) == ("ok", 2)
    assert (after.texts, after.notices) == (["fine"], [])


async def test_a_kernel_that_answers_while_it_is_killed_is_not_said_to_go_on(session, monkeypatch):
    kill = kernel_process.KernelProcess.kill

    def kill_late(kernel):
        if session.kernels._running is not None:
            session.kernels._running.end("finished")
        kill(kernel)

    monkeypatch.setattr(kernel_process.KernelProcess, "kill", kill_late)
    found = await session.execute("ignore_sigint", 0.5)
    assert (found.closed.status, found.closed.rung) == ("timeout", "kill_kernel")
    assert "All Python variables are gone" in found.notices[0]
    monkeypatch.undo()
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation, after.notices) == ("ok", 2, [])


async def test_a_kernel_that_is_deaf_after_an_interrupt_is_replaced_before_the_next_cell(session):
    found = await session.execute("be_deaf_afterwards", 0.5)
    assert found.closed.rung == "interrupt"
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation, after.texts) == ("ok", 2, ["fine"])
    assert after.notices[0].startswith(
        "After the last cell the Python kernel did not answer any more and was replaced."
    )


@pytest.mark.parametrize(
    ("how", "said"),
    [("1", "exited with status 1"), ("0", "exited with status 0"), ("SIGSEGV", "SIGSEGV"), ("SIGKILL", "SIGKILL")],
)
async def test_a_kernel_that_dies_is_noticed_at_once_with_its_output_kept(session, how, said):
    found = await session.execute(f"die {how}")
    assert (found.closed.status, found.closed.rung, found.texts) == ("kernel_died", None, ["before"])
    assert said in found.notices[0]
    assert ("memory ran out" in found.notices[0]) == (how == "SIGKILL")
    assert found.took_s < 2
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation, after.notices) == ("ok", 2, [])


async def test_a_kernel_that_died_between_cells_is_told_of_in_the_next(session):
    assert (await session.execute("die_after_reply")).closed.status == "ok"
    await until(lambda: of_kernels() == [])
    found = await session.execute("behave")
    assert (found.closed.status, found.closed.kernel_generation, found.texts) == ("ok", 2, ["fine"])
    assert found.notices[0].startswith("Since the last cell the Python kernel has ended.")


async def test_a_flood_is_bounded_and_its_end_is_there(session):
    found = await session.execute("flood 20000 1000")
    (text,) = found.texts
    assert found.closed.status == "ok"
    assert len(text) <= 12_000
    assert text.endswith("END\n")
    assert found.closed.truncated
    kept = "".join(event.text for event in found.events if isinstance(event, KeptEvent))
    assert kept == ("x" * 1000 + "\n") * 20000 + "END\n"
    assert sum(len(event.text) for event in found.events if isinstance(event, PieceEvent)) < 16_384 * 20 * (
        found.took_s + 1
    )


async def test_output_after_idle_belongs_to_its_own_cell(session):
    assert (await session.execute("write_after_idle")).texts == ["fine"]
    async with asyncio.timeout(GUARD_S):
        while (found := await session.execute("behave")).texts == ["fine"]:
            pass
    assert sorted((o.text, o.of_cell) for o in found.outputs) == [("fine", None), ("late\n", 1)]


async def test_a_cell_has_ended_only_when_reply_and_idle_have_both_come(session):
    found = await session.execute("idle_before_reply")
    assert (found.closed.status, found.texts) == ("ok", ["first"])
    assert found.took_s >= 0.2


async def test_a_lost_idle_does_not_cost_the_deadline(session):
    found = await session.execute("lose_idle")
    assert (found.closed.status, found.texts) == ("ok", ["no idle"])
    assert found.took_s < 3


async def test_a_lost_reply_ends_at_the_deadline(session):
    found = await session.execute("lose_reply", 0.3)
    assert found.closed.status == "timeout"
    assert found.took_s < 3.3


async def test_forged_messages_do_no_harm(session):
    found = await session.execute("forge")
    assert (found.closed.status, found.texts) == ("ok", ["xstill here"])


async def test_children_of_a_cell_are_killed_before_its_kernel(session):
    found = await session.execute("leave_child 612", 0.5)
    assert found.closed.rung == "kill_kernel"
    assert "Processes that were ended: `sleep 612`." in found.notices[0]
    assert [command for command in of_kernels() if "612" in command] == []


async def test_orphans_of_an_interrupted_cell_are_ended_and_its_kernel_kept(session):
    found = await session.execute("leave_orphan 613", 0.5)
    assert found.closed.rung == "interrupt"
    assert "Processes that were ended: `sleep 613`." in found.notices[0]
    assert [command for command in of_kernels() if "613" in command] == []


async def test_what_an_earlier_cell_started_outlives_an_interrupt_and_is_named(session):
    await session.execute("start_server 614")
    await asyncio.sleep(0.05)  # starts are told apart by hundredths of a second
    found = await session.execute("be_interruptible", 0.5)
    assert "Still running from before: `sleep 614`." in found.notices[0]
    assert [command for command in of_kernels() if "614" in command] == ["sleep 614"]


async def test_what_cells_had_started_ends_with_their_kernel(session):
    await session.execute("start_server 615")
    found = await session.execute("die 3")
    assert "Processes that were ended: `sleep 615`." in found.notices[0]
    assert [command for command in of_kernels() if "615" in command] == []


async def test_asking_for_an_interrupt_ends_a_cell_as_interrupted(session):
    found = await session.execute("be_interruptible", during=lambda: session.kernels.interrupt("python"))
    assert (found.closed.status, found.closed.rung) == ("interrupted", "interrupt")
    assert found.notices[0].startswith("The cell was interrupted on request.")


async def test_an_interrupt_while_nothing_runs_is_nothing(session):
    assert session.kernels.interrupt("python") is False
    assert (await session.execute("behave")).closed.status == "ok"


async def test_a_restart_during_a_cell_ends_it_as_interrupted_and_the_next_works(session):
    async with asyncio.TaskGroup() as group:
        restarting: list[asyncio.Task[int]] = []
        found = await session.execute(
            "ignore_sigint",
            during=lambda: restarting.append(group.create_task(session.kernels.restart("python"))),
        )
        assert (found.closed.status, found.closed.rung) == ("interrupted", "kill_kernel")
        assert found.notices[0].startswith("The Python kernel was restarted on request while this cell ran.")
        after = await session.execute("behave")
        assert (after.closed.status, after.closed.kernel_generation, after.texts) == ("ok", 2, ["fine"])
    assert restarting[0].result() == 2


async def test_a_restart_between_cells_is_told_in_the_next(session):
    assert await session.kernels.restart("python") == 2
    found = await session.execute("behave")
    assert found.notices[0].startswith("The Python kernel was restarted on request.")
    assert found.closed.kernel_generation == 2


async def test_a_second_cell_at_once_is_refused_as_busy(session):
    def post_another() -> None:
        with pytest.raises(Busy, match="Cell 1 is still running"):
            session.kernels.execute(Execute(number=9, language="python", code="behave", deadline_s=1))

    found = await session.execute("be_interruptible", 0.5, during=post_another)
    assert found.closed.status == "timeout"


async def test_a_listener_who_leaves_takes_nothing_with_him(session):
    cell = session.kernels.execute(Execute(number=1, language="python", code="be_interruptible", deadline_s=0.5))
    async with asyncio.timeout(GUARD_S):
        await cell.over()
    assert (await session.execute("behave")).closed.status == "ok"


async def test_a_heartbeat_comes_about_every_second(session):
    found = await session.execute("be_interruptible", 2.5)
    assert len([event for event in found.events if event.type == "heartbeat"]) == 2


async def test_another_language_is_refused_in_a_sentence(session):
    with pytest.raises(NoKernel, match="There is no javascript kernel here"):
        session.kernels.execute(Execute(number=1, language="javascript", code="1", deadline_s=1))


async def test_a_kernel_that_starts_slowly_is_waited_for(session, environment):
    environment["MISBEHAVE"] = "slow_start 0.7"
    await session.execute("die 1")
    found = await session.execute("behave")
    assert (found.closed.status, found.texts) == ("ok", ["fine"])
    assert found.took_s > 0.5


async def test_a_cell_whose_deadline_comes_before_its_kernel_is_up_is_not_executed(session, environment):
    environment["MISBEHAVE"] = "slow_start 2"
    await session.execute("die 1")
    found = await session.execute("behave", 0.3)
    assert (found.closed.status, found.texts) == ("timeout", [])
    assert found.notices[0].startswith(
        "The code was not executed: the Python kernel, or the desktop, was still starting"
    )
    assert found.took_s < 2  # so long the kernel takes to start
    after = await session.execute("behave")
    assert (after.closed.status, after.closed.kernel_generation) == ("ok", 2)


async def test_a_kernel_that_cannot_start_is_told_with_its_log_and_tried_again(session, environment):
    environment["MISBEHAVE"] = "die_at_start"
    await session.execute("die 1")
    found = await session.execute("behave")
    assert (found.closed.status, found.texts) == ("kernel_died", [])
    assert "no Python kernel could be started" in found.notices[0]
    assert "a start-up file was broken" in found.notices[0]
    del environment["MISBEHAVE"]
    assert (await session.execute("behave")).closed.status == "ok"


async def test_a_kernel_that_never_answers_is_given_up(tmp_path, environment, monkeypatch):
    monkeypatch.setattr(kernel_process, "_UP_S", 0.5)
    environment["MISBEHAVE"] = "never_answer"
    kernels = Kernels(str(tmp_path), tmp_path / "kernels", lambda: environment, commands={"python": COMMAND})
    async with kernels:
        with pytest.raises(NotUp, match=r"No python kernel came up within 0\.5 s"):
            await kernels.start("python")
    assert of_kernels() == []


async def test_a_kernel_killed_from_outside_never_swallows_its_cell(session):
    """A restarter that revives a dead kernel must not make the waiting cell forget that its kernel is gone."""

    def kill() -> None:
        pid = session.kernels._lanes["python"].kernel.pid
        os.kill(pid, signal.SIGKILL)

    found = await session.execute("be_interruptible", during=kill)
    assert (found.closed.status, found.closed.kernel_generation) == ("kernel_died", 1)
    assert (await session.execute("behave")).closed.kernel_generation == 2


async def test_leaving_with_a_cell_running_ends_everything(tmp_path, environment):
    kernels = Kernels(str(tmp_path), tmp_path / "kernels", lambda: environment, commands={"python": COMMAND})
    async with asyncio.timeout(GUARD_S):
        async with kernels:
            await kernels.start("python")
            cell = kernels.execute(Execute(number=1, language="python", code="leave_child 616", deadline_s=60))
            await until(lambda: any("616" in command for command in of_kernels()))
        await cell.over()
    assert of_kernels() == []


async def test_a_cell_that_writes_without_end_sends_so_many_pieces_and_no_more(session, monkeypatch):
    monkeypatch.setattr(running_cell, "_PIECES_CHARS", 100_000)
    found = await session.execute("flood 3000 1000", 10.0)
    pieces = sum(len(event.text) for event in found.events if isinstance(event, PieceEvent))
    assert 0 < pieces <= 100_000
