"""A uvicorn for tests of real sockets.

Decided here: it ends within some milliseconds of being told. uvicorn itself looks ten times a second, which is most of the
time that such a test takes.
"""

from __future__ import annotations

import asyncio

import uvicorn


class PromptServer(uvicorn.Server):
    """uvicorn, that looks more often whether it `should_exit`."""

    async def main_loop(self) -> None:
        while not self.should_exit:  # noqa: ASYNC110 - may be set by another thread
            await asyncio.sleep(0.005)
