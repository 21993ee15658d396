"""Ctrl-C for a command that holds a sandbox: once ends it in order, twice ends it now.

Flows in: what is to be done, as a coroutine; SIGINT and SIGTERM. Flows out: its result, or `asyncio.CancelledError` when
it was told to end. Decided here: the second signal doesn't wait for anything. The sandbox dies with this process, and
its run stays `open`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

INTERRUPTED: Final = 130
"""Exit status, as shells have it."""


def run_to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Do the work in an event loop of its own, and return what it gives.

    Raises:
        asyncio.CancelledError: A signal came, and the work was cancelled and has cleaned up.
    """
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    signals = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        for number in signals:
            loop.add_signal_handler(number, os._exit, INTERRUPTED)
        print("\nEnding in order; Ctrl-C again ends at once.", file=sys.stderr, flush=True)
        task.cancel()

    for number in signals:
        loop.add_signal_handler(number, end)
    try:
        return await task
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
