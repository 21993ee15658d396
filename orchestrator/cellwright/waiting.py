"""How long a response of the model is waited for, where seconds are counted.

Flows in: what asks, how many seconds are left. Flows out: the response; or the end of the run. Decided here: that a request which was made
in time may take a while beyond the budget, since what was paid for is not thrown away; and that there is an end to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from cellwright.endings import BudgetSpent

GRACE_S: Final = 60.0
"""Seconds that a response may be late; the one that sums up, made when nothing is left, has as long."""

T = TypeVar("T")


async def in_time(asked: Awaitable[T], seconds_left: float | None) -> T:
    """Return what was asked for.

    Args:
        asked: It.
        seconds_left: Of the budget; absent: they are not counted, and the model server's own limits are the only ones.

    Raises:
        BudgetSpent: It has not come by then, nor a while later.
    """
    limit = asyncio.timeout(None if seconds_left is None else seconds_left + GRACE_S)
    try:
        async with limit:
            return await asked
    except TimeoutError:
        if not limit.expired():
            raise
        raise BudgetSpent(
            f"The seconds of the budget were spent, and the model had not answered {GRACE_S:g} s later; it is not asked again."
        ) from None
