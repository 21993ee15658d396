"""One kernel per language: started, given cells, interrupted, restarted.

Flows in: cells, one at a time. Flows out: a `RunningCell` each, closed by its deadline at the latest, whatever the kernel
does. Decided here: what a cell waits for before it is sent; what each rung of the ladder does; how a cell's end becomes its
status; and that after any end but its own a kernel must answer a question, or be replaced, before the next cell.

A cell is answered first; its kernel is mended after, and the next cell waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from cellwright_kernel import processes, sentences
from cellwright_kernel.child import NotUp
from cellwright_kernel.deadline import Clock, SystemClock
from cellwright_kernel.kernel_process import COMMANDS, KernelProcess
from cellwright_kernel.lane import Lane, first_of, late_events
from cellwright_kernel.memory import Memory
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.running_cell import End, RunningCell, so_far_events
from cellwright_kernel.sentences import Left
from cellwright_kernel.wire import CellStatus, Event, Execute, Language, Rung, SecretAskedEvent

_KEYS_S: Final = 1.0
_OF_REPLY: Final[Mapping[str | None, CellStatus]] = {"ok": "ok", "aborted": "interrupted", "abort": "interrupted"}
"""What a kernel's reply says -> the cell's status; anything else is an error."""


class Busy(Exception):
    """A cell is running already."""


class NoKernel(Exception):
    """There is no kernel for this language, and no way to start one."""


class Kernels:
    """The kernels of one sandbox. An async context manager: leaving it ends them.

    Args:
        home: Where cells run.
        folder: A private folder for sockets and logs.
        environment: Returns what a kernel that starts now gets as its environment.
        usable: Set while the desktop can be used; a cell waits for it.
        release_keys: Lets go of held keys and buttons and returns how many there were.
        ensure_desktop_answers: Sees that display and pages answer and returns what to say of those that did not.
        screen_changed: Says whether anything may have been drawn since the last screenshot.
        commands: How a kernel of each language is started.
        memory: What it may have.
        groups: What puts a kernel into its control groups; see `Child.start`.
        image_size: Most pixels across and down of a picture.
        clock: Time, for the deadlines.
    """

    def __init__(
        self,
        home: str,
        folder: Path,
        environment: Callable[[], Mapping[str, str]],
        *,
        usable: asyncio.Event | None = None,
        release_keys: Callable[[], Awaitable[int]] | None = None,
        ensure_desktop_answers: Callable[[], Awaitable[list[str]]] | None = None,
        screen_changed: Callable[[], bool] = lambda: True,
        commands: Mapping[Language, Sequence[str]] = COMMANDS,
        memory: Memory | None = None,
        groups: Sequence[int] = (),
        image_size: tuple[int, int] = (2048, 2048),
        clock: Clock | None = None,
    ) -> None:
        self._home = home
        self._folder = folder
        self._environment = environment
        self._usable = usable or asyncio.Event()
        if usable is None:
            self._usable.set()
        self._release_keys = release_keys
        self._ensure_desktop_answers = ensure_desktop_answers
        self._screen_changed = screen_changed
        self._commands = commands
        self._memory = memory or Memory(None)
        self._groups = groups
        self._new_outputs = partial(Outputs, width=image_size[0], height=image_size[1])
        self._clock = clock or SystemClock()
        self._lanes: dict[Language, Lane] = {}
        self._running: RunningCell | None = None
        self._unwanted: int | None = None
        self._notices: list[str] = []
        self._is_leaving = False
        self._group = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, *failure: Any) -> None:  # noqa: ANN401 - handed on
        self._is_leaving = True
        for lane in self._lanes.values():
            if lane.mending is not None:
                lane.mending.cancel()
        if self._running is not None:
            self._running.ladder.ask("kill_kernel")
        for lane in self._lanes.values():
            if lane.kernel is not None:
                await lane.kernel.end()
        await self._group.__aexit__(*failure)

    async def start(self, language: Language) -> None:
        """Start a language's kernel; return once it answers.

        Raises:
            NoKernel: the language is not offered.
            NotUp: with how it ended and the end of its log.
        """
        lane = self._lane(language)
        await self._begin_start(lane)
        if lane.fault is not None:
            raise NotUp(lane.fault)

    def execute(self, request: Execute) -> RunningCell:
        """Begin a cell; it runs to its end whether anybody reads its events or not.

        Raises:
            Busy: another cell is running.
            NoKernel: the language is not offered.
        """
        lane = self._lane(request.language)
        if self._running is not None:
            raise Busy(f"Cell {self._running.request.number} is still running. Nothing of this one was executed.")
        lane.running = cell = RunningCell(request, lane.take_outputs(), self._clock)
        if killed := self._memory.killed():
            cell.outputs.note(self._memory.others_killed(killed, between=True))
        while self._notices:
            cell.outputs.note(self._notices.pop(0))
        self._running = cell
        if request.number == self._unwanted:
            cell.ladder.ask()
        self._group.create_task(self._run(lane, cell))
        return cell

    def late(self) -> Iterator[Event]:
        """Take what has come since the last cell of each language, and been noticed, as `late_events` yields it."""
        notices, self._notices = self._notices, []
        return late_events(self._lanes.values(), notices)

    def so_far(self) -> list[Event]:
        """Return what the cell that is running has shown by now, as `so_far_events` does."""
        return so_far_events(self._running)

    def interrupt(self, language: Language, number: int | None = None) -> bool:
        """Ask a cell to end, its kernel to keep its variables; False when it does not run, or is still on its way: it ends then.

        Without its number it is the one that runs.

        Raises:
            NoKernel: the language is not offered.
        """
        self._lane(language)
        self._unwanted = number or self._unwanted  # no number comes twice
        running = self._running
        if running is None or running.request.language != language or number not in (None, running.request.number):
            return False
        running.ladder.ask()
        return True

    async def restart(self, language: Language) -> int:
        """Replace a language's kernel by a new one; a cell that is running in it ends as interrupted.

        Returns:
            The generation of the new kernel.

        Raises:
            NoKernel: the language is not offered.
            NotUp: the new one did not come up.
        """
        lane = self._lane(language)
        while lane.mending is not None:
            await first_of(lane.mending)
        running = self._running
        if running is not None and running.request.language == language:
            lane.restart_asked = True
            running.ladder.ask("kill_kernel")
            await running.over()
        if lane.mending is None:  # nothing ran, or it ended soundly in this moment
            lane.restart_asked = False
            lane.note(sentences.restarted_between(language))
            self._begin_start(lane)
        while lane.mending is not None:
            await first_of(lane.mending)
        if lane.fault is not None:
            raise NotUp(lane.fault)
        return lane.generation

    async def running_kernel(self, language: Language) -> KernelProcess:
        """Return a language's kernel, started if there is none.

        Raises:
            NoKernel: the language is not offered.
            NotUp: it did not come up.
        """
        lane = self._lane(language)
        await lane.is_settled()
        if not lane.is_up:
            if lane.kernel is not None and lane.fault is None:
                lane.note(sentences.died_between(language, lane.kernel.how_it_ended()))
            await first_of(self._begin_start(lane))
        if lane.fault is not None or lane.kernel is None:
            raise NotUp(lane.fault or "It was ended.")
        return lane.kernel

    def note(self, sentence: str) -> None:
        """Tell the model something: in the cell that is running, else before the next one's own output."""
        if self._running is not None:
            self._running.outputs.note(sentence)
        else:
            self._notices.append(sentence)

    def ask(self, question: SecretAskedEvent) -> bool:
        """Have the outside asked for a secret in the stream of the cell that runs; False when none does."""
        return self._running is not None and self._running.ask(question)

    def refused(self, sentence: str, host: str | None) -> None:
        """Have the cell that runs tell what the way out refused; between cells it is the browser's own affair."""
        if self._running is not None:
            self._running.refused(sentence, host)

    def refused_page(self, sentence: str) -> None:
        """Have the cell that runs tell that the browser shows a refusal in a page's place."""
        if self._running is not None:
            self._running.refused_page(sentence)

    async def _run(self, lane: Lane, cell: RunningCell) -> None:
        """See a cell through to its close, then mend its kernel if need be."""
        is_sound, end = False, None
        try:
            async with asyncio.TaskGroup() as group:
                climbing = group.create_task(self._climb(lane, cell))
                end = await self._end_of(lane, cell)
                climbing.cancel()
            status, is_sound = await self._status(lane, cell, end)
        except Exception as error:
            cell.outputs.note(sentences.host_fault(error))
            status = "kernel_died"
        lane.running, self._running = None, None
        if not is_sound and not self._is_leaving and lane.mending is None:
            was_killed = end == "given_up" and cell.message_id is not None
            lane.mending = self._group.create_task(self._mend(lane, was_killed=was_killed))
        cell.close(status, lane.generation, screen_changed=self._screen_changed())

    async def _end_of(self, lane: Lane, cell: RunningCell) -> End:
        """Send the cell to a kernel that runs, and wait for its end."""
        end = await self._end_at_first(lane, cell)
        if end == "kernel_died" and not cell.has_begun and cell.message_id is not None and cell.ladder.rung is None:
            # it had died before, unnoticed, and has executed nothing
            cell.begin_again()
            end = await self._end_at_first(lane, cell)
        return end

    async def _end_at_first(self, lane: Lane, cell: RunningCell) -> End:
        await self._usable_kernel(lane, cell)
        if cell.ended.done():
            return cell.ended.result()
        if lane.kernel is None or not lane.is_up:
            return "kernel_died"
        lane.began_at = processes.now()
        cell.message_id = lane.kernel.execute(cell.request.code, cell.request.number)
        lane.cells[cell.message_id] = lane.last_cell = cell.request.number
        return await cell.ended

    async def _usable_kernel(self, lane: Lane, cell: RunningCell) -> None:
        """Wait for the desktop and for a kernel that is being mended; start one if there is none; or until the end."""
        if not self._usable.is_set():
            await cell.unless_ended(self._usable.wait())
        if lane.mending is not None:
            await first_of(lane.mending, cell.ended)
        if lane.is_taken and lane.is_up and not cell.ended.done():
            await cell.unless_ended(lane.is_free())  # what an attached console sent, or the kernel died of it
        if not cell.ended.done() and not lane.is_up:
            if lane.kernel is not None and lane.fault is None:
                cell.outputs.note(sentences.died_between(lane.language, lane.kernel.how_it_ended()))
            await first_of(self._begin_start(lane), cell.ended)
        if not self._usable.is_set() and not cell.ended.done():  # the browser has died while the kernel was waited for
            await self._usable_kernel(lane, cell)

    async def _climb(self, lane: Lane, cell: RunningCell) -> None:
        async def act(rung: Rung) -> None:
            if cell.message_id is None or lane.kernel is None:
                cell.end("given_up")
                return
            match rung:
                case "interrupt":
                    await cell.soon_begun()
                    lane.ended |= lane.kernel.interrupt(lane.began_at)
                case "kill_children":
                    lane.ended |= await lane.kernel.kill_children(lane.began_at)
                case _:
                    lane.kill()

        await cell.ladder.climb(act)
        cell.end("finished" if cell.ladder.has_stopped else "given_up")

    async def _status(self, lane: Lane, cell: RunningCell, end: End) -> tuple[CellStatus, bool]:
        """Return a cell's status and whether its kernel is sound; say what is left if the cell did not end by itself."""
        ladder = cell.ladder
        if cell.message_id is None or lane.kernel is None:
            if end == "given_up":
                cell.note_end(lane.why_not_sent(is_early=ladder.is_early))
                return ("interrupted" if ladder.asked else "timeout"), lane.is_taken or lane.mending is not None
            cell.note_end(sentences.not_started(lane.language, lane.fault or ""))
            return "kernel_died", False
        how = self._how_out_of_memory(lane.kernel, cell, is_dead=end == "kernel_died" and not ladder.rung)
        if end == "finished" and ladder.rung is None:
            return _OF_REPLY.get(cell.reply_status, "error"), True
        left = await self._left(lane, lane.kernel, kept=end == "finished" and lane.is_up)
        if ladder.rung is None:
            cell.note_end(sentences.died(left, how or lane.kernel.how_it_ended()))
            return "kernel_died", False
        if lane.restart_asked:
            cell.note_end(sentences.restarted(left))
        elif self._is_leaving:
            cell.note_end(sentences.stopped())
        else:
            deadline_s = None if ladder.asked else cell.request.named_s or ladder.deadline_s
            killed, ok = ladder.rung == "kill_kernel", end == "finished" and cell.reply_status == "ok"
            cell.note_end(sentences.interrupted(left, deadline_s=deadline_s, was_killed=killed, by_itself=ok))
        return ("interrupted" if ladder.asked else "timeout"), False

    def _how_out_of_memory(self, kernel: KernelProcess, cell: RunningCell, *, is_dead: bool) -> str | None:
        """Say what became of a cell for want of memory; return how its kernel ended, if that was why."""
        if (killed := self._memory.killed()) and is_dead and kernel.was_killed:
            return self._memory.how_killed()
        if said := self._memory.said_of(killed, kernel.language, cell.failure, kernel.pid):
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

    def _begin_start(self, lane: Lane) -> asyncio.Task[None]:
        if lane.mending is None:
            lane.mending = self._group.create_task(self._replace(lane))
        return lane.mending

    async def _mend(self, lane: Lane, *, was_killed: bool) -> None:
        """See that the next cell finds a desktop and a kernel that answer; one that was killed may take seconds to be gone."""
        if await lane.is_sound(self._ensure_desktop_answers, was_killed=was_killed):
            lane.mending = None
            return
        await self._replace(lane)

    async def _replace(self, lane: Lane) -> None:
        """End a language's kernel and start its next one; a failure is left in `lane.fault`."""
        if lane.kernel is not None:
            await lane.kernel.end()
        lane.generation += 1
        lane.fault, lane.is_taken, lane.restart_asked = None, False, False
        command = self._commands[lane.language]
        lane.kernel = kernel = KernelProcess(lane.language, lane.generation, command, self._folder, self._groups)
        try:
            await kernel.start(self._environment(), self._home)
        except NotUp as error:
            lane.fault = str(error)
        else:
            lane.is_up = True
            self._group.create_task(lane.read(kernel))
        lane.mending = None

    def _lane(self, language: Language) -> Lane:
        if self._is_leaving:
            raise NotUp(sentences.stopping())
        if language not in self._commands:
            raise NoKernel(
                f"There is no {language} kernel here. Nothing was executed. Use {' or '.join(self._commands)}."
            )
        if language not in self._lanes:
            self._lanes[language] = Lane(language, self._new_outputs)
        return self._lanes[language]
