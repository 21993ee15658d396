"""An interrupt as soon as a cell was begun, in a real sandbox and both languages: it hits that cell, wherever that is by then."""

from __future__ import annotations

import asyncio
import time

import pytest

from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

SLEEPS: dict[Language, str] = {
    "python": "import time; time.sleep(20)",
    "javascript": "await new Promise(resolve => setTimeout(resolve, 20000))",
}
EARLY_S = (None, 0, 0.001, 0.002, 0.004, 0.008)


async def test_an_interrupt_right_after_execute_hits_its_cell() -> None:
    async with Session.open(Spec(browser=False)) as session:
        for language, code in SLEEPS.items():
            await session.execute("1", language=language)
            for early_s in EARLY_S:
                began = time.monotonic()
                running = asyncio.ensure_future(session.execute(code, language=language))
                await asyncio.sleep(0)  # until it is called
                if early_s is not None:
                    await asyncio.sleep(early_s)
                await session.interrupt()
                cell = await running
                assert (cell.status, time.monotonic() - began < 5) == ("interrupted", True), (language, early_s)
            assert (await session.execute("1", language=language)).status == "ok"
