"""A cell is sent when both its kernel and the desktop can take it, whichever of them was waited for."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from tests.waiting import GUARD_S

from cellwright_kernel import processes
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import Execute

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, str(Path(__file__).with_name("misbehaving_kernel.py")), "-f", "{connection}")


async def test_a_cell_is_not_sent_to_a_desktop_that_ended_while_its_kernel_was_being_started(tmp_path):
    processes.become_subreaper()
    usable = asyncio.Event()
    usable.set()
    commands = {"python": COMMAND}
    async with Kernels(
        str(tmp_path), tmp_path / "kernels", lambda: dict(os.environ), usable=usable, commands=commands
    ) as kernels:
        cell = kernels.execute(Execute(number=1, language="python", code="behave", deadline_s=20))
        lane = kernels._lanes["python"]
        async with asyncio.timeout(GUARD_S):
            while lane.mending is None:  # noqa: ASYNC110 - the first step of a task
                await asyncio.sleep(0)
            usable.clear()  # the browser dies now
            await lane.mending
            assert lane.is_up
            while not usable._waiters and cell.message_id is None:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0)
            assert cell.message_id is None
            usable.set()
            last = [event for events in [batch async for batch in cell.events()] for event in events][-1]
        assert (last.type, last.status) == ("closed", "ok")
