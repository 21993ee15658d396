"""SIGINT -> the running cell stops, and nothing else does.

Flows in: SIGINT at any moment. Flows out: KeyboardInterrupt inside the cell's own code, or the cancelling of a cell that
awaits. Decided here: when each is right. Python code of the cell is on the stack: raise there. The cell waits for
something: cancel it. No cell runs: do nothing, so that a late interrupt never hits the next cell. A message is being
written: wait until it is whole.
"""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import Any

from cellwright_kernel.iopub import Gate
from cellwright_kernel.python.errors import is_own_file


class Interrupts:
    """Owns the handler of SIGINT for the life of the kernel.

    Only while `open` may it raise: code of the model runs then, or code of ours that works on its values. Whoever closes
    it does so by a plain assignment within the `try` that catches what it raises: between the two Python looks for no
    signal, so nothing escapes.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._came_early = False
        self.open = False
        self.interrupted = False
        """Whether the running cell has been interrupted."""

    def install(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take SIGINT. A handler, unlike an ignored signal, is not inherited by the programs a cell starts.

        asyncio's own handler is set first and replaced, because it leaves the loop with a descriptor that wakes it: a
        signal that comes just before the loop starts to wait would otherwise be seen when it has waited.
        """
        loop.add_signal_handler(signal.SIGINT, _nothing)
        signal.signal(signal.SIGINT, self._on_signal)

    def arm(self, task: asyncio.Task[Any]) -> None:
        """Name the cell that an interrupt is for."""
        self.interrupted = self._came_early = False
        self._loop = asyncio.get_running_loop()
        self._task = task

    def begin(self) -> None:
        """Open; an interrupt that came since `arm` counts now."""
        self.open = True
        if self._came_early:
            self.interrupted = True
            raise KeyboardInterrupt

    def disarm(self) -> None:
        """From here on an interrupt has nobody to hit."""
        self._task = None

    def _on_signal(self, _signum: int, frame: FrameType | None) -> None:
        if self._task is None:
            return
        if not self.open:
            self._came_early = True
        elif self._gate.held_here():
            self._gate.on_leave = self._deliver_late
        else:
            self._deliver(frame)

    def _deliver_late(self) -> None:
        if self.open:
            self._deliver(None)

    def _deliver(self, frame: FrameType | None) -> None:
        self.interrupted = True
        task, loop = self._task, self._loop
        assert task is not None  # noqa: S101 - it is open
        assert loop is not None  # noqa: S101
        if asyncio.current_task(loop) is task:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)
        if _runs_own_code(frame):  # a leftover background task or callback that never waits
            raise KeyboardInterrupt


def _nothing() -> None:
    """What asyncio calls besides."""


def _runs_own_code(frame: FrameType | None) -> bool:
    """Whether code of the model is on the stack."""
    while frame is not None:
        if is_own_file(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False
