"""Cells, restarts, interrupts and Jupyter clients at once, on one kernel: one is started at a time, and the host outlives all of it."""

import asyncio
import contextlib
import os
import random
from pathlib import Path

import pytest

from cellwright_kernel import processes
from cellwright_kernel.child import NotUp
from cellwright_kernel.kernels import Busy, Kernels
from cellwright_kernel.wire import ClosedEvent, Execute

pytestmark = pytest.mark.slow

ASKED = 25
AT_ONCE = 4


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_is_asked_at_once_the_next_cell_is_executed(seed: int, tmp_path: Path) -> None:
    processes.become_subreaper()
    made_up = random.Random(seed)  # noqa: S311 - the same each time
    environment = {**os.environ, "HOME": str(tmp_path)}
    numbers = iter(range(1, 10_000))

    async def cell(kernels: Kernels, code: str) -> ClosedEvent:
        asked = Execute(number=next(numbers), language="python", code=code, deadline_s=20)
        events = [event async for batch in kernels.execute(asked).events() for event in batch]
        assert isinstance(events[-1], ClosedEvent)
        return events[-1]

    async def ask(kernels: Kernels) -> None:
        for _ in range(ASKED):
            with contextlib.suppress(Busy, NotUp):
                match made_up.choice(["restart", "restart", "cell", "cell", "connection", "connection", "interrupt"]):
                    case "restart":
                        await kernels.restart("python")
                    case "cell":
                        await cell(kernels, made_up.choice(["1", "0 x", "import time; time.sleep(0.05)"]))
                    case "connection":
                        await kernels.running_kernel("python")
                    case _:
                        kernels.interrupt("python")

    async with Kernels(str(tmp_path), tmp_path / "kernels", lambda: environment) as kernels, asyncio.timeout(180):
        await asyncio.gather(*(ask(kernels) for _ in range(AT_ONCE)))
        assert (await cell(kernels, "1")).status == "ok"


async def test_a_client_that_comes_while_a_cells_kernel_is_killed_starts_no_second_one(tmp_path: Path) -> None:
    processes.become_subreaper()
    environment = {**os.environ, "HOME": str(tmp_path)}
    async with Kernels(str(tmp_path), tmp_path / "kernels", lambda: environment) as kernels, asyncio.timeout(60):
        await kernels.start("python")
        running = kernels.execute(Execute(number=1, language="python", code="while True: pass", deadline_s=50))
        restarting = asyncio.ensure_future(kernels.restart("python"))
        lane = kernels._lane("python")
        while lane.is_up:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0)
        kernel = await kernels.running_kernel("python")
        await running.over()
        assert (await restarting, kernel.generation) == (2, 2)
