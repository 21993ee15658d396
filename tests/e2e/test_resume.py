"""The demo is killed in the middle, and resumed: the stored report is the same, with no expense in it twice."""

from __future__ import annotations

import pytest
from tests.soak.killed_runs import Moment, each_killed

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

ENTERING_SEVEN_ROWS = Moment(33, 0.0, "orchestrator")
SUBMITTING = Moment(52, 0.0, "whole tree")


def test_killed_demo_comes_to_the_same_report() -> None:
    killed = each_killed((ENTERING_SEVEN_ROWS, SUBMITTING))
    assert [(one.status, one.faults) for one in killed] == [("open", ()), ("open", ())]
