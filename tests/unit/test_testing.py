"""The doubles and the suites that users get: they find what is wrong, and pass what is right."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cellwright.record import read_run
from cellwright.replay.replay import Again, replay
from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright.testing import backend
from cellwright.testing.backend import check_backend
from cellwright.testing.clock import FakeClock
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.report import Nonconformance, run_checks

FAKE_GAPS = (
    "an_interrupt_keeps_variables",
    "the_callers_environment_is_absent",
    "the_hosts_files_are_absent",
    "there_is_no_network",
    "it_is_not_uid_0_outside",
    "two_share_nothing",
)


@pytest.mark.slow
async def test_the_fake_backend_conforms_but_for_what_no_double_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_INTERRUPTED_S", 0.3)  # no interrupt reaches a cell of the fake
    report = await check_backend(FakeBackend, known_gaps=FAKE_GAPS)
    assert report.known_gaps == FAKE_GAPS
    assert "variables_persist" in report.held


async def test_cells_of_the_fake_find_the_runs_parameters_also_when_it_is_replayed(tmp_path: Path) -> None:
    async with Session.open(Spec(params={"city": "Rome"}), backend=FakeBackend(), runs=tmp_path) as session:
        assert (await session.execute("log(params['city'])")).text == "Rome"
        await session.restart("python")
        assert (await session.execute("log(len(params['city']))")).text == "4"
        await session.execute("log('params' in globals())")
    run = read_run(session.run_dir)
    for city, differs in (("Oslo", []), ("Paris", [2])):
        again = Again(params={"city": city}, keep_going=True)
        replayed = await replay(run, again, backend=FakeBackend(), runs=tmp_path)
        assert [cell.number for cell in replayed.cells if cell.verdict != "same"] == differs


async def test_every_failed_check_is_told_with_its_sentence() -> None:
    async def holds() -> None:
        """Hold."""

    async def fails() -> None:
        raise AssertionError("water is wet")

    with pytest.raises(Nonconformance, match=r"^fails: water is wet$"):
        await run_checks({"holds": holds, "fails": fails}, ())


async def test_a_known_gap_that_holds_is_told() -> None:
    async def holds() -> None:
        """Hold."""

    with pytest.raises(Nonconformance, match="is listed as a known gap"):
        await run_checks({"holds": holds}, ("holds",))


async def test_the_fake_clock_wakes_who_waits_in_their_order() -> None:
    clock, woken, never = FakeClock(), [], asyncio.Event()

    async def wait(moment: float) -> None:
        await clock.until(moment, never)
        woken.append((moment, clock.now()))

    async with asyncio.TaskGroup() as tasks:
        for moment in (3.0, 1.0, 2.0):
            tasks.create_task(wait(moment))
        await clock.advance(2.5)
        assert woken == [(1.0, 1.0), (2.0, 2.0)]
        await clock.advance(1.0)
    assert woken[-1] == (3.0, 3.0)


async def test_the_fake_clock_lets_go_who_waits_for_something_sooner() -> None:
    clock, sooner = FakeClock(5.0), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(clock.until(6.0, sooner))
        await clock.advance(0.5)
        assert not waiting.done()
        sooner.set()
    assert clock.now() == 5.5
