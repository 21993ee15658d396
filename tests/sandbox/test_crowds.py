"""Many processes at once, in a real sandbox: they are ended in time, and nothing of them is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ladder import Row, faults_of

from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

PATIENT = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(.01)"


async def test_a_fork_bomb_that_takes_a_refusal_and_tries_again_costs_neither_sandbox_nor_variables(
    tmp_path: Path,
) -> None:
    row = Row(
        "patient", PATIENT, "timeout", "variables set so far are kept", kept=True, rungs=("interrupt", "kill_children")
    )
    async with Session.open(runs=tmp_path) as session:
        assert await faults_of(session, "python", row) == []
