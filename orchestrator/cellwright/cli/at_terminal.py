"""Ctrl-C where a person sits at the terminal of a run by a model: once pauses it and asks what is to be done.

Flows in: SIGINT. Flows out: the run goes on, is told something, or ends in order. Decided here: what the person is asked, and what an
answer means; a second Ctrl-C ends in order as everywhere, and a third at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from cellwright.cli.live import Live
from cellwright.cli.terminal import Terminal, is_there
from cellwright.errors import CellwrightError, UsageError
from cellwright.steering import Steering

ASKED = (
    "Paused; a cell that ran was interrupted. [enter] goes on, `stop` ends the run, anything else is told to the model."
)


class AtTerminal:
    """Whoever sits at the terminal of one run, or nobody. Made by `AtTerminal.found`.

    Args:
        terminal: Where a person is asked; None: nobody is there, and Ctrl-C ends in order.
    """

    def __init__(self, terminal: Terminal | None) -> None:
        self.terminal = terminal
        self.steering = Steering()
        self._asking: asyncio.Task[None] | None = None  # cancelled in `close`

    @classmethod
    def found(cls) -> AtTerminal:
        """Return whoever is there."""
        return cls(Terminal() if is_there() else None)

    def sees(self, live: Live) -> None:
        """Say who shows the run, and so where its pictures are."""
        if self.terminal is not None:
            self.terminal.screens = lambda sha256: str(live.run_dir / "blobs" / sha256)

    def on_first(self) -> bool:
        """Pause and ask; False when nobody is there, or that is being done already."""
        if self.terminal is None or (self._asking is not None and not self._asking.done()):
            return False
        self.steering.pause()
        self._asking = asyncio.ensure_future(self._ask(self.terminal))
        return True

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Ask no longer when the block is left."""
        try:
            yield
        finally:
            if self._asking is not None:
                self._asking.cancel()
                await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self, terminal: Terminal) -> None:
        with suppress(CellwrightError):  # whoever runs the cell finds that, too
            await self.steering.interrupt()
        typed = await terminal.now("> ", before=ASKED)
        if typed is None or typed.strip().lower() == "stop":
            self.steering.stop()
            return
        if typed.strip():
            with suppress(UsageError):  # a terminal's line is never too long
                self.steering.steer(typed.strip())
        self.steering.go_on()
