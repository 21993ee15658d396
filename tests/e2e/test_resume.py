"""The demo is killed in the middle, and resumed: the stored report is the same, with no expense in it twice."""

from __future__ import annotations

import pytest
from tests.soak.killed_runs import Moment, Victim, killed_run

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


@pytest.mark.parametrize(
    ("records", "victim"),
    [
        pytest.param(33, "orchestrator", id="while it enters the seven other rows"),
        pytest.param(52, "whole tree", id="while the report is submitted"),
    ],
)
def test_killed_demo_comes_to_the_same_report(records: int, victim: Victim) -> None:
    killed = killed_run(Moment(records, 0.0, victim))
    assert (killed.status, killed.faults) == ("open", ())
