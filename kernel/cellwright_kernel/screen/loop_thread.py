"""An event loop in a thread of its own, for what watches while a cell runs.

Flows in: coroutines, from any thread. Flows out: their results. Decided here: the thread starts with the first of them
and never holds a process open; after a fork the child has one of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines one beside the other.

    Args:
        name: The thread's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._starting = threading.Lock()

    @property
    def is_new(self) -> bool:
        """Whether nothing was submitted in this process yet."""
        return self._pid != os.getpid()

    def submit(self, work: Coroutine[object, object, _T]) -> Future[_T]:
        """Begin it; cancelling the future cancels it."""
        with self._starting:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True).start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop)
