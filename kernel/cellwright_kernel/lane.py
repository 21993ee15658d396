"""One language of a sandbox: its kernel of now, and which message belongs to which cell.

Flows in: messages of the kernel. Flows out: the same, handed to the running cell or to the next one's outputs. Decided
here: what an earlier cell publishes late belongs to that cell's number, and stands in the cell that runs or comes next,
or, where none comes, among the late events; what an attached console executes is in no cell; and when a kernel whose cell
had to be ended counts as healthy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from cellwright_kernel import sentences
from cellwright_kernel.kernel_process import KernelProcess
from cellwright_kernel.outputs import Outputs
from cellwright_kernel.running_cell import RunningCell
from cellwright_kernel.wire import ClosedEvent, Event, Language, OutputEvent, Text

_HEALTHY_S: Final = 2.0
"""Seconds that an interrupted kernel has to answer a question; 2 ms are usual."""


class Lane:
    """One language: its kernel of now, and what is between two cells.

    Args:
        language: Which.
        new_outputs: Makes those of a cell.
    """

    def __init__(self, language: Language, new_outputs: Callable[[], Outputs]) -> None:
        self.language = language
        self._new_outputs = new_outputs
        self.outputs = new_outputs()
        """Of the next cell: what comes late, and notices, gather here."""
        self.kernel: KernelProcess | None = None
        self.generation = 0
        self.is_up = False
        self.is_leaving = False
        self.fault: str | None = None
        """Why the last start failed."""
        self.mending: asyncio.Task[None] | None = None
        """Runs while the kernel is being started or examined."""
        self.is_examined = False
        """True while it is seen, after a cell that had to be ended, whether desktop and kernel answer."""
        self.running: RunningCell | None = None
        self.restart_asked = False
        self.began_at = 0.0
        self.ended: dict[int, str] = {}
        """Process id -> command line of what the running cell had started and was told to end."""
        self.cells: dict[str, int] = {}
        """Message id -> number of the cell."""
        self.last_cell = 0
        self.is_taken = False
        """True while the kernel executes what another client sent: a console that somebody attached."""
        self.question = ""
        self.answered = asyncio.Event()

    def take_outputs(self) -> Outputs:
        """Return what has come between two cells; from now on it gathers anew."""
        taken, self.outputs = self.outputs, self._new_outputs()
        return taken

    def kill(self) -> None:
        """Kill its kernel: from now on it is not there, also if what it had answered just before is still to come."""
        if self.kernel is not None:
            self.kernel.kill()
        self.is_up = False

    async def is_sound(
        self, ensure_desktop_answers: Callable[[], Awaitable[list[str]]] | None, *, was_killed: bool
    ) -> bool:
        """After a cell that had to be ended: see that the desktop answers, and whether the kernel does; note what does not."""
        self.is_examined = True
        try:
            for sentence in await ensure_desktop_answers() if ensure_desktop_answers else ():
                self.note(sentence)
            if not self.is_up or self.restart_asked or was_killed:
                return False
            if not await self.is_healthy():
                self.note(sentences.did_not_answer(self.language))
                return False
            return True
        finally:
            self.is_examined = False

    async def is_healthy(self) -> bool:
        """Whether its kernel, which is up, answers in time, or has got on to what an attached console sent."""
        try:
            async with asyncio.timeout(_HEALTHY_S):
                await self.is_free()
        except TimeoutError:
            return self.is_taken
        return True

    async def is_settled(self) -> None:
        """Wait while its kernel is mended, or has died in a cell.

        That cell sees to the next one: two would be started, one in the other's place.
        """
        while self.mending is not None or (self.running is not None and self._has_died_in(self.running)):
            if self.mending is not None:
                await asyncio.wait({self.mending})
            elif self.running is not None:
                await self.running.over()

    def _has_died_in(self, cell: RunningCell) -> bool:
        return cell.message_id is not None and not self.is_up

    async def is_free(self) -> None:
        """Wait until its kernel, which is up, has done what it was sent, or has died of it."""
        assert self.kernel is not None  # noqa: S101 - for the type checker; it is up
        self.answered.clear()
        self.question = self.kernel.ask()  # it answers when it is free; an `idle` that says so might be lost
        await self.answered.wait()

    def note(self, sentence: str) -> None:
        """Tell the model something: in the cell that runs or waits, else before the next one's own output."""
        (self.running.outputs if self.running is not None else self.outputs).note(sentence)

    async def read(self, kernel: KernelProcess) -> None:
        """Read a kernel until it has ended."""
        await kernel.read(self.take_reply, self.take_message)
        if self.kernel is kernel:
            self.is_up = self.is_taken = False
            self.answered.set()  # whoever waits for it waits no longer
            if self.running is not None and self.running.message_id is not None:
                self.running.end("kernel_died")

    def take_reply(self, message: dict[str, Any]) -> None:
        """Hand a reply to whoever waits for it."""
        parent = str(message["parent_header"].get("msg_id"))
        if parent == self.question:
            self.is_taken = False
            self.answered.set()
        elif self.running is not None and parent == self.running.message_id:
            self.running.take_reply(message)

    def take_message(self, message: dict[str, Any]) -> None:
        """Hand an output to its cell; what belongs to an earlier one becomes late output, with its number.

        What another client's request gave is not ours: only whether the kernel is at work for it is noted.
        """
        if self.running is not None:
            self.running.hear()
        parent = str(message["parent_header"].get("msg_id"))
        if self.kernel is not None and self.kernel.is_of_others(message["parent_header"]):
            if message["header"].get("msg_type") == "status":
                self.is_taken = message["content"].get("execution_state") == "busy"
            return
        if self.running is not None and parent == self.running.message_id:
            self.is_taken = False  # it does one thing at a time
            self.running.take_message(message)
            return
        if message["header"].get("msg_type") == "status" or not self.last_cell:
            return
        of_cell = self.cells.get(parent, self.last_cell)
        if self.running is None:
            self.outputs.add(message, of_cell)
        else:
            self.running.outputs.add(message, None if of_cell == self.running.request.number else of_cell)


def late_events(lanes: Iterable[Lane], notices: Sequence[str]) -> Iterator[Event]:
    """Take what has come since the last cells; yield it as if it were a cell's: numbered through, and closed at the end.

    Args:
        lanes: Of all languages.
        notices: What the next cell would have been told, whatever its language.
    """
    for number, sentence in enumerate(notices):
        yield OutputEvent(number=number, output=Text(text=sentence, source="notice"))
    first, truncated = len(notices), False
    for outputs in [lane.take_outputs() for lane in lanes]:
        after = first
        for event in outputs.end():
            number = first + (event.number or 0)
            after = max(after, number + 1)
            yield event.model_copy(update={"number": number})
        first, truncated = after, truncated or outputs.truncated
    yield ClosedEvent(status="ok", truncated=truncated)
