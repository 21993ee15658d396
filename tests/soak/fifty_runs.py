"""Fifty runs at once, at a model server that lets through ten requests a second.

Flows in: how many runs. Flows out: how often they asked, what was refused, and how long it took beside the least time
that so many requests take. Decided here: that time is taken at the server, from the first request to the last; each run
has two turns and a cell, and a sandbox that is none.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from cellwright.loop import Outcome, run
from cellwright.model.asking import Asking
from cellwright.model.responses import ResponsesModel
from cellwright.testing.fake_sandbox import FakeBackend
from tests.busy_server import BusyServer

RUNS: Final = 50
PER_SECOND: Final = 10
_SCRIPT: Final = "```python\nlog(1)\n```\n---\nexpect: 1\nDone."


@dataclass(frozen=True)
class Waited:
    """What the server saw."""

    done: int
    requests: int
    refused: int
    most_in_a_second: int
    took_s: float
    ratio: float
    """By the least time that so many requests take."""


async def fifty_runs(runs: int) -> Waited:
    """Have them all ask the same server."""
    async with BusyServer(_SCRIPT, per_second=PER_SECOND) as server:
        outcomes = await asyncio.gather(*(_one(server, number) for number in range(runs)))
    took_s = server.came[-1] - server.came[0]
    return Waited(
        done=sum(outcome.status == "done" for outcome in outcomes),
        requests=len(server.came),
        refused=server.refused,
        most_in_a_second=server.most_in_a_second,
        took_s=took_s,
        ratio=took_s / ((len(server.came) - 1) / PER_SECOND),
    )


async def _one(server: BusyServer, number: int) -> Outcome:
    model = ResponsesModel(f"m{number}", base_url=server.base_url, api_key="k", asking=Asking(per_second=PER_SECOND))
    try:
        return await run("Do it.", model=model, backend=FakeBackend())
    finally:
        await model.close()
