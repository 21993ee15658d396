"""Many runs that ask one model server at once: they wait together, ask no more often than allowed, and all finish."""

from __future__ import annotations

import asyncio

import pytest
from tests.busy_server import BusyServer

from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking, Retrying
from cellwright.model.responses import ResponsesModel
from cellwright.record.reader import read_run
from cellwright.record.records import ModelResponse
from cellwright.testing.fake_sandbox import FakeBackend

SCRIPT = "```python\nlog(1)\n```\n---\nexpect: 1\nDone."


async def one_run(server: BusyServer, number: int, asking: Asking) -> Outcome:
    model = ResponsesModel(f"m{number}", base_url=server.base_url, api_key="k", asking=asking)
    try:
        return await run("Do it.", model=model, backend=FakeBackend())
    finally:
        await model.close()


async def runs_at(server: BusyServer, count: int, asking: Asking) -> list[Outcome]:
    return await asyncio.gather(*(one_run(server, number, asking) for number in range(count)))


@pytest.mark.slow
async def test_runs_that_meet_429_together_wait_as_long_as_the_server_says_and_all_finish() -> None:
    """Case A09: each of eight is refused five times, and told each time to wait."""
    async with BusyServer(SCRIPT, shut_for=5, wait_s=0.1) as server:
        outcomes = await runs_at(server, 8, Asking(retrying=Retrying(attempts=8)))
    assert [(outcome.status, outcome.turns, outcome.cells) for outcome in outcomes] == [("done", 2, 1)] * 8
    assert server.too_early == []
    assert server.refused == 40
    for outcome in outcomes:
        waited = [record.waited_ms for record in read_run(outcome.run_dir).records if isinstance(record, ModelResponse)]
        assert waited[0] >= 500


@pytest.mark.slow
async def test_fifty_runs_ask_no_more_often_than_allowed_in_any_second_and_all_finish() -> None:
    async with BusyServer(SCRIPT, per_second=60) as server:
        outcomes = await runs_at(server, 50, Asking(per_second=60))
    assert [outcome.status for outcome in outcomes] == ["done"] * 50
    assert (len(server.came), server.refused) == (100, 0)
    assert server.most_in_a_second <= 60
