"""The doubles and the suites that users get: they find what is wrong, and pass what is right."""

from __future__ import annotations

import asyncio

import pytest

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
async def test_the_fake_backend_conforms_but_for_what_no_double_can_do() -> None:
    report = await check_backend(FakeBackend, known_gaps=FAKE_GAPS)
    assert report.known_gaps == FAKE_GAPS
    assert "variables_persist" in report.held


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


async def test_the_fake_clock_wakes_sleepers_in_their_order() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(duration_s: float) -> None:
        await clock.sleep(duration_s)
        woken.append((duration_s, clock.now()))

    async with asyncio.TaskGroup() as tasks:
        for duration_s in (3.0, 1.0, 2.0):
            tasks.create_task(sleeper(duration_s))
        await asyncio.sleep(0)
        await clock.advance(2.5)
        assert woken == [(1.0, 1.0), (2.0, 2.0)]
        await clock.advance(1.0)
    assert woken[-1] == (3.0, 3.0)
