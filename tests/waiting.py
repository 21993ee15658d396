"""How long a test waits for a fact.

A guard has one purpose: that a wait which would never end does end. What it waits for comes in milliseconds on an idle machine and may take
many seconds on two busy cores; so it is long, the same everywhere, and shorter only than the product's own limits (60 s and more), which
must not be what ended the wait. What the product promises about time is asserted where it is promised, by measuring.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

GUARD_S = 30.0


async def until(fact: Callable[[], object], every_s: float = 0.01) -> None:
    """Wait until a fact that another task or process makes holds; no event tells of it."""
    async with asyncio.timeout(GUARD_S):
        while not fact():  # noqa: ASYNC110 - others make it so
            await asyncio.sleep(every_s)
