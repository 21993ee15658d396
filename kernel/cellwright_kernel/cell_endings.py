"""How a cell's end becomes its status, and what is said of it.

Flows in: a cell that has ended, the lane that it ran in, and how its end came. Flows out: its status, whether its kernel is
sound, and the sentences about what is left. Decided here: that what a cell had started ends with it when it had to be ended,
and that keys it held are let go of; and that memory is told of where memory was why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cellwright_kernel import processes, sentences
from cellwright_kernel.child import NotUp
from cellwright_kernel.kernel_process import KernelProcess
from cellwright_kernel.lane import Lane
from cellwright_kernel.memory import Memory
from cellwright_kernel.running_cell import End, RunningCell
from cellwright_kernel.sentences import Left
from cellwright_kernel.wire import CellStatus

_KEYS_S: Final = 1.0
_OF_REPLY: Final[Mapping[str | None, CellStatus]] = {"ok": "ok", "aborted": "interrupted", "abort": "interrupted"}
"""What a kernel's reply says -> the cell's status; anything else is an error."""


class CellEndings:
    """Tells how the cells of one sandbox have ended.

    Args:
        memory: What it may have.
        release_keys: Lets go of held keys and buttons and returns how many there were.
        is_leaving: Whether the kernel host is stopping.
    """

    def __init__(
        self, memory: Memory, release_keys: Callable[[], Awaitable[int]] | None, is_leaving: Callable[[], bool]
    ) -> None:
        self._memory = memory
        self._release_keys = release_keys
        self._is_leaving = is_leaving

    def begun(self, cell: RunningCell) -> None:
        """Tell a cell that begins what was killed for memory since the last one."""
        if killed := self._memory.killed():
            cell.outputs.note(self._memory.others_killed(killed, between=True))

    async def ended(self, lane: Lane, cell: RunningCell, end: End) -> tuple[CellStatus, bool]:
        """Return a cell's status and whether its kernel is sound; say what is left if the cell did not end by itself.

        Args:
            lane: The language that it was executed in.
            cell: The cell.
            end: How its end came.
        """
        ladder = cell.ladder
        if cell.message_id is None or lane.kernel is None:
            return self._never_sent(lane, cell, end)
        how = self._how_out_of_memory(lane.kernel, cell, is_dead=end == "kernel_died" and not ladder.rung)
        if end == "finished" and ladder.rung is None:
            return _OF_REPLY.get(cell.reply_status, "error"), True
        left = await self._left(lane, lane.kernel, kept=end == "finished" and lane.is_up)
        if ladder.rung is None:
            cell.note_end(sentences.died(left, how or lane.kernel.how_it_ended()))
            return "kernel_died", False
        if lane.restart_asked:
            cell.note_end(sentences.restarted(left))
        elif self._is_leaving():
            cell.note_end(sentences.stopped())
        else:
            cell.note_end(_interrupted(cell, end, left))
        return _of_ladder(cell), False

    def _never_sent(self, lane: Lane, cell: RunningCell, end: End) -> tuple[CellStatus, bool]:
        if end == "given_up":
            cell.note_end(lane.why_not_sent(is_early=cell.ladder.is_early))
            return _of_ladder(cell), lane.is_taken or lane.mending is not None
        cell.note_end(sentences.not_started(lane.language, lane.fault or ""))
        return "kernel_died", False

    def _how_out_of_memory(self, kernel: KernelProcess, cell: RunningCell, *, is_dead: bool) -> str | None:
        """Say what became of a cell for want of memory; return how its kernel ended, if that was why."""
        killed = self._memory.killed()
        if killed and is_dead and kernel.was_killed:
            return self._memory.how_killed()
        said = self._memory.said_of(killed, kernel.language, cell.failure, kernel.pid)
        if said is not None:
            cell.outputs.note(said)
        return None

    async def _left(self, lane: Lane, kernel: KernelProcess, *, kept: bool) -> Left:
        """End what the cell had started, or all that the kernel had if it is lost; let go of keys; look what is left."""
        ended = lane.ended | await kernel.kill_children(lane.began_at if kept else 0.0)
        lane.ended = {}
        return Left(
            language=lane.language,
            kernel_kept=kept,
            ended=[command for pid, command in ended.items() if command and processes.is_ending(pid)],
            running=kernel.children() if kept else [],
            keys=await self._let_go(),
        )

    async def _let_go(self) -> int:
        if self._release_keys is None:
            return 0
        try:
            async with asyncio.timeout(_KEYS_S):
                return await self._release_keys()
        except (TimeoutError, NotUp):  # the display is gone, and with it what was held
            return 0


def _interrupted(cell: RunningCell, end: End, left: Left) -> str:
    ladder = cell.ladder
    return sentences.interrupted(
        left,
        deadline_s=None if ladder.asked else cell.request.named_s or ladder.deadline_s,
        was_killed=ladder.rung == "kill_kernel",
        by_itself=end == "finished" and cell.reply_status == "ok",
    )


def _of_ladder(cell: RunningCell) -> CellStatus:
    """Return the status of a cell that the ladder has ended."""
    return "interrupted" if cell.ladder.asked else "timeout"
