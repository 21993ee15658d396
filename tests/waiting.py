"""How long a test waits for a fact.

A guard has one purpose: that a wait which would never end does end. What it waits for comes in milliseconds on an idle
machine and may take many seconds on two busy cores; so it is long, and the same everywhere. Where a limit of the
product's own must not have been what ended the wait, the test shortens that limit, or measures.
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
