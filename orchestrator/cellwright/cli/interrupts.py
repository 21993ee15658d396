"""Ctrl-C for a command that holds a sandbox: once ends it in order, twice ends it now; one more where a person is asked first.

Flows in: what is to be done, as a coroutine; SIGINT and SIGTERM. Flows out: its result, or `asyncio.CancelledError` when
it was told to end. Decided here: the second signal doesn't wait for anything. The sandbox dies with this process, and
its run stays `open`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

INTERRUPTED: Final = 130
"""Exit status, as shells have it."""


def run_to_its_end(work: Coroutine[Any, Any, T], on_first: Callable[[], bool] | None = None) -> T:
    """Do the work in an event loop of its own, and return what it gives.

    Args:
        work: What is to be done.
        on_first: Called when Ctrl-C comes; where it returns True, that was all, and the next one counts as the first. Absent: at once.

    Raises:
        asyncio.CancelledError: A signal came, and the work was cancelled and has cleaned up.
    """
    return asyncio.run(_watched(work, on_first))


async def _watched(work: Coroutine[Any, Any, T], on_first: Callable[[], bool] | None) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    signals = (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        for number in signals:
            loop.add_signal_handler(number, os._exit, INTERRUPTED)
        print("\nEnding in order; Ctrl-C again ends at once.", file=sys.stderr, flush=True)
        task.cancel()

    def interrupted() -> None:
        if on_first is None or not on_first():
            end()

    loop.add_signal_handler(signal.SIGTERM, end)
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        return await task
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
