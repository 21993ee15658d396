"""Holding the deadline of the cell that runs, while a person outside is waited for.

Flows in: its number. Flows out: a request at the door. Decided here: nothing; a cell of another number, or none, is left as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from cellwright.errors import CellwrightError
from cellwright.sandbox.bodies import bounded
from cellwright.sandbox.door import ANSWER_S, Door


@asynccontextmanager
async def deadline_held(door: Door, cell: int) -> AsyncIterator[None]:
    """Hold the deadline of a cell during the block. What goes wrong with that, whoever reads the cell's stream finds, too."""
    with suppress(CellwrightError):
        await _say(door, cell, "hold")
    try:
        yield
    finally:
        with suppress(CellwrightError):
            await _say(door, cell, "release")


async def _say(door: Door, cell: int, word: str) -> None:
    path, params = f"/cells/running/{word}", {"cell": str(cell)}
    async with door.request("POST", path, params=params, whole_s=ANSWER_S) as response:
        await bounded(response, 4096)
