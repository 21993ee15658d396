"""A person's hand on a run by a model: a word in between, a pause, an end.

Flows in: what a person wants, at any moment. Flows out: what the loop does between two acts of its own. Decided here: that a word goes with
the next request, never between a call and its answer; that a pause waits before the next request or cell, and takes none of the budget; that
a call which was held back by one is not begun once the person has said something; and that an end is one in order, which waits for a
cell of the model's that runs and for nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from cellwright.asking import Waits
from cellwright.endings import Stopped
from cellwright.errors import UsageError

WORD_CHARS: Final = 20_000
"""Most characters of a word in between."""

T = TypeVar("T")


class Steering:
    """What a person wants of one run. To be given to `run`, and used while it runs, in its event loop."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._goes = asyncio.Event()
        self._goes.set()
        self._said_while_paused = False
        self._stop: str | None = None
        self._stopped = asyncio.Event()
        self._interrupts: Callable[[], Awaitable[None]] | None = None

    @property
    def is_paused(self) -> bool:
        """True while nothing new is begun."""
        return not self._goes.is_set()

    @property
    def words(self) -> bool:
        """True while there is something that the model was not told yet."""
        return bool(self._words)

    @property
    def holds_back(self) -> bool:
        """True while what the model has called for is not to be begun: it does not know yet what was said in a pause."""
        return self._said_while_paused

    def steer(self, text: str) -> None:
        """Tell the model something with its next request. In a pause: calls that it has made before are not executed.

        Raises:
            UsageError: It is empty, or has more than `WORD_CHARS` characters. Nothing is told.
        """
        if not text.strip():
            raise UsageError("There is nothing to tell the model. Say something.")
        if len(text) > WORD_CHARS:
            raise UsageError(
                f"A word in between may have {WORD_CHARS:,} characters. The model was told nothing. Say it in fewer."
            )
        self._words.append(text)
        self._said_while_paused = self._said_while_paused or self.is_paused

    def pause(self) -> None:
        """Begin nothing new: neither a request nor a cell. What runs goes on."""
        self._goes.clear()

    def go_on(self) -> None:
        """End the pause."""
        self._goes.set()

    def stop(self, reason: str = "It was stopped by a person.") -> None:
        """End the run in order, as `cancelled`, before its next act.

        A request that the model has not answered is given up, with its retries and its wait for its turn; so are a question of the model's
        and a check of its final answer. A cell of the model's that runs is waited for: `interrupt` ends that.
        """
        self._stop = reason
        self._stopped.set()
        self._goes.set()

    async def interrupt(self) -> None:
        """Interrupt the cell that runs, which keeps its variables; nothing happens when none does."""
        if self._interrupts is not None:
            await self._interrupts()

    def holds(self, interrupts: Callable[[], Awaitable[None]]) -> None:
        """Say how its running cell is interrupted."""
        self._interrupts = interrupts

    async def before_an_act(self, waits: Waits) -> None:
        """Wait out a pause.

        Raises:
            Stopped: The run is to end.
        """
        if not self._goes.is_set():
            with waits.waiting():
                await self._goes.wait()
        if self._stop is not None:
            raise Stopped(self._stop)

    async def unless_stopped(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Wait for something that may take long, and return it.

        Raises:
            Stopped: The run is to end: it was not begun, or was cancelled and has cleaned up.
        """
        if self._stop is not None:
            waiting.close()
            raise Stopped(self._stop)
        doing, ending = asyncio.ensure_future(waiting), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop is not None and not doing.done():
                raise Stopped(self._stop)
            return doing.result()
        finally:
            doing.cancel()
            ending.cancel()
            await asyncio.gather(doing, ending, return_exceptions=True)

    def taken(self) -> list[str]:
        """Return what the model is to be told, once."""
        words, self._words, self._said_while_paused = self._words, [], False
        return words
