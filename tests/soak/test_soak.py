"""A twentieth of each of the long ones, a tenth of the killed ones: nothing grows. How fast it is, no test asserts; `scripts/soak.sh` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.eight_hours import eight_hours
from tests.soak.killed_runs import KILLED, killed_runs
from tests.soak.made_up_requests import REQUESTS, made_up_requests
from tests.soak.many_cells import many_cells
from tests.soak.many_sessions import many_sessions
from tests.soak.replayed_runs import replayed_run

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TWENTIETH = 0.05
TENTH = 0.1
HOST_GROWTH = 1.10


async def test_five_hundred_cells_leave_nothing_open_and_the_kernel_host_as_large_as_it_was() -> None:
    lasted = await many_cells(TWENTIETH, compared=False)
    assert lasted.growth == []
    assert lasted.host_ratio <= HOST_GROWTH, f"{lasted.before.resident_kb} -> {lasted.after.resident_kb}"


async def test_screenshots_page_loads_and_tabs_leave_no_process_and_no_file() -> None:
    worked = await eight_hours(TWENTIETH)
    assert (worked.screenshots, worked.page_loads, worked.tabs) == (100, 25, 10)
    assert worked.growth == []


async def test_sessions_without_a_browser_answer_at_once(clean_environment: Path) -> None:
    answered = await many_sessions(3, clean_environment)
    assert answered.answers == ["0", "1", "2"]
    assert answered.displays == 3


def test_five_killed_demos_come_to_the_same_report_when_they_are_resumed() -> None:
    killed = killed_runs(round(KILLED * TENTH), seed=1)
    assert [(one.moment, one.faults) for one in killed if one.faults] == []
    assert len(killed) == 5


STATUSES = {
    "words that differ": ("ok", "ok", "ok"),
    "errors": ("error", "error", "error", "error"),
    "window": ("ok", "ok", "ok"),
}


@pytest.mark.parametrize("name", STATUSES)
async def test_a_replay_finds_no_difference_where_there_is_none(name: str, clean_environment: Path) -> None:
    done = await replayed_run(name, clean_environment, times=1)
    assert done.statuses == STATUSES[name]
    assert done.alarms == ()


def test_five_hundred_made_up_requests_get_no_server_error_and_no_answer_but_a_described_one(
    clean_environment: Path,
) -> None:
    asked = made_up_requests(round(REQUESTS * TWENTIETH), clean_environment, seed=5)
    assert asked.requests == 500
    assert asked.server_errors == 0, asked.statuses
    assert asked.faults == {}
    done = {route for route, status in asked.routes if status < 300}
    assert len(done) >= 14  # of 16: the others may have been asked for what is not there
