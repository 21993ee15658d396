"""One kernel per language: started, given cells, interrupted, restarted.

Flows in: cells, one at a time. Flows out: a `RunningCell` each, closed by its deadline at the latest, whatever the kernel
does. Decided here: who runs where; what a cell waits for before it is sent; what each rung of the ladder does; and that after
any end but its own a kernel must answer a question, or be replaced, before the next cell.

What a cell's end is called and what is said of it stands in `cell_endings.py`; how a kernel is started and mended in `mender.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from cellwright_kernel import processes, sentences
from cellwright_kernel.cell_endings import CellEndings
from cellwright_kernel.child import NotUp
from cellwright_kernel.deadline import Clock, SystemClock
from cellwright_kernel.kernel_process import COMMANDS, KernelProcess
from cellwright_kernel.lane import Lane, first_of, late_events
from cellwright_kernel.memory import Memory
from cellwright_kernel.mender import Mender
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.running_cell import End, RunningCell, so_far_events
from cellwright_kernel.wire import Event, Execute, Language, Rung, SecretAskedEvent


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
        cell_ended: Told the number of each cell that ends; says whether anything may have been drawn since the last screenshot.
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
        cell_ended: Callable[[int], bool] = lambda _: True,
        commands: Mapping[Language, Sequence[str]] = COMMANDS,
        memory: Memory | None = None,
        groups: Sequence[int] = (),
        image_size: tuple[int, int] = (2048, 2048),
        clock: Clock | None = None,
    ) -> None:
        self._usable = usable or asyncio.Event()
        if usable is None:
            self._usable.set()
        self._cell_ended = cell_ended
        self._commands = commands
        self._endings = CellEndings(memory or Memory(None), release_keys, lambda: self._is_leaving)
        self._new_outputs = partial(Outputs, width=image_size[0], height=image_size[1])
        self._clock = clock or SystemClock()
        self._lanes: dict[Language, Lane] = {}
        self._running: RunningCell | None = None
        self._unwanted: int | None = None
        self._notices: list[str] = []
        self._is_leaving = False
        self._group = asyncio.TaskGroup()
        self._mender = Mender(
            home,
            folder,
            environment,
            commands=commands,
            groups=groups,
            ensure_desktop_answers=ensure_desktop_answers,
            group=self._group,
        )

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
        await self._mender.start(lane)
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
        self._endings.begun(cell)
        while self._notices:
            cell.outputs.note(self._notices.pop(0))
        self._running = cell
        if request.number == self._unwanted:
            cell.ladder.ask()
        self._group.create_task(self._run(lane, cell))
        return cell

    @property
    def running(self) -> RunningCell | None:
        """The cell that runs; None between cells."""
        return self._running

    @property
    def executing(self) -> int | None:
        """Number of the cell that runs; None between cells."""
        return None if self._running is None else self._running.request.number

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
            self._mender.start(lane)
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
            await first_of(self._mender.start(lane))
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

    def hold(self, number: int, *, is_held: bool) -> bool:
        """Have the deadline of a cell not run, or run on; False when that cell does not run, or is not held."""
        return (
            self._running is not None and self._running.request.number == number and self._running.hold(is_held=is_held)
        )

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
        is_sound = False
        end: End | None = None
        try:
            async with asyncio.TaskGroup() as group:
                climbing = group.create_task(self._climb(lane, cell))
                end = await self._end_of(lane, cell)
                climbing.cancel()
            status, is_sound = await self._endings.ended(lane, cell, end)
        except Exception as error:
            cell.outputs.note(sentences.host_fault(error))
            status = "kernel_died"
        lane.running = self._running = None
        if not is_sound and not self._is_leaving:
            self._mender.mend(lane, was_killed=end == "given_up" and cell.message_id is not None)
        cell.close(status, lane.generation, screen_changed=self._cell_ended(cell.request.number))

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
            await first_of(self._mender.start(lane), cell.ended)
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
