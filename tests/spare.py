"""Sessions that nobody has used yet: the next one is opened, and the last one closed, while a test has its own.

Flows in: that a test wants one. Flows out: a session. Decided here: one is spare at a time; each has a task of its own, which
opens and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cellwright.session import Session


class Spare:
    """Gives out new sessions."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._next = self._begin()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Give one out, and begin with the next."""
        (opening, over), self._next = self._next, self._begin()
        try:
            yield await opening
        finally:
            over.set()

    def close(self) -> None:
        """Have the one that is spare closed."""
        self._next[1].set()

    def _begin(self) -> tuple[asyncio.Future[Session], asyncio.Event]:
        opening: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()
        self._tasks.create_task(_hold(opening, over))
        return opening, over


@asynccontextmanager
async def spare_sessions() -> AsyncIterator[Spare]:
    """Give them out while the block lasts; afterwards all are closed."""
    async with asyncio.TaskGroup() as tasks:
        spare = Spare(tasks)
        try:
            yield spare
        finally:
            spare.close()


async def _hold(opening: asyncio.Future[Session], over: asyncio.Event) -> None:
    try:
        async with Session.open() as session:
            opening.set_result(session)
            await over.wait()
    except Exception as error:
        if opening.done():
            raise
        opening.set_exception(error)
