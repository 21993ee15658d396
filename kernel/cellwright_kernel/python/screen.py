"""`screen` as the Python kernel offers it.

Flows in: the kernel's display and browser, from its environment. Flows out: one `Screen`. Decided here: while a cell's
own code waits for the screen, the kernel's loop goes on, so that Playwright's events and the handlers of the model are
not held up by a wait for the page that needs them; in a thread or a background task the wait blocks, up to its limit.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from cellwright_kernel.python.asyncio_run import lets_loop_go_on
from cellwright_kernel.python.desktop_input import pictures
from cellwright_kernel.screen.screen import Screen, blocking

_BEGIN_S: Final = 3.0


async def begun_screen(screen: Screen | None) -> Screen:
    """Return the screen, or a new one, once it listens to the browser as it is now."""
    if screen is None:
        screen = Screen(os.environ["DISPLAY"], pictures(), os.environ.get("CELLWRIGHT_CDP"), _wait)
    with suppress(TimeoutError):  # what does not answer now, the call itself will say
        async with asyncio.timeout(_BEGIN_S):
            await asyncio.wrap_future(screen.begin())
    return screen


def _wait(future: Future[Any], limit_s: float) -> Any:
    if lets_loop_go_on():
        return asyncio.run(_awaited(future, limit_s))
    return blocking(future, limit_s)


async def _awaited(future: Future[Any], limit_s: float) -> Any:
    async with asyncio.timeout(limit_s):
        return await asyncio.wrap_future(future)
