"""What sees to it that a language has a kernel: the first one, and the next one when it is gone or no longer sound.

Flows in: a lane without a kernel, or whose cell had to be ended. Flows out: a lane with a kernel that answers, or with the
reason why there is none. Decided here: that one start at a time goes on in a lane; that a kernel whose cell had to be ended
stays when it answers a question, and else is replaced; and what the lane's next kernel is started with.

A cell is answered first; its kernel is mended after, and the next cell waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from cellwright_kernel.child import NotUp
from cellwright_kernel.kernel_process import KernelProcess
from cellwright_kernel.lane import Lane
from cellwright_kernel.wire import Language


class Mender:
    """Starts, examines and replaces the kernels of one sandbox.

    Args:
        home: Where cells run.
        folder: A private folder for sockets and logs.
        environment: Returns what a kernel that starts now gets as its environment.
        commands: How a kernel of each language is started.
        groups: What puts a kernel into its control groups; see `Child.start`.
        ensure_desktop_answers: Sees that display and pages answer and returns what to say of those that did not.
        group: The parent of its background tasks, and of those that read kernels.
    """

    def __init__(
        self,
        home: str,
        folder: Path,
        environment: Callable[[], Mapping[str, str]],
        *,
        commands: Mapping[Language, Sequence[str]],
        groups: Sequence[int],
        ensure_desktop_answers: Callable[[], Awaitable[list[str]]] | None,
        group: asyncio.TaskGroup,
    ) -> None:
        self._home = home
        self._folder = folder
        self._environment = environment
        self._commands = commands
        self._groups = groups
        self._ensure_desktop_answers = ensure_desktop_answers
        self._group = group

    def start(self, lane: Lane) -> asyncio.Task[None]:
        """Begin to start a lane's next kernel, unless it is being mended; return what is done when that is over."""
        if lane.mending is None:
            lane.mending = self._group.create_task(self._replace(lane))
        return lane.mending

    def mend(self, lane: Lane, *, was_killed: bool) -> None:
        """Begin to see that a lane's next cell finds a desktop and a kernel that answer, unless it is being mended.

        Args:
            lane: Whose cell had to be ended, or whose kernel has died.
            was_killed: Whether its kernel was: one that was killed may take seconds to be gone.
        """
        if lane.mending is None:
            lane.mending = self._group.create_task(self._mend(lane, was_killed=was_killed))

    async def _mend(self, lane: Lane, *, was_killed: bool) -> None:
        if await lane.is_sound(self._ensure_desktop_answers, was_killed=was_killed):
            lane.mending = None
            return
        await self._replace(lane)

    async def _replace(self, lane: Lane) -> None:
        """End a language's kernel and start its next one; a failure is left in `lane.fault`."""
        if lane.kernel is not None:
            await lane.kernel.end()
        lane.generation += 1
        lane.fault = None
        lane.is_taken = False
        lane.restart_asked = False
        command = self._commands[lane.language]
        kernel = KernelProcess(lane.language, lane.generation, command, self._folder, self._groups)
        lane.kernel = kernel
        try:
            await kernel.start(self._environment(), self._home)
        except NotUp as error:
            lane.fault = str(error)
        else:
            lane.is_up = True
            self._group.create_task(lane.read(kernel))
        lane.mending = None
