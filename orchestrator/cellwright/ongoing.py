"""The cell that a session executes, from its opening until its driver was told how it ended.

Flows in: what its code gives, as it comes. Flows out: the cell, closed, or as it stands. Decided here: that one driver at a
time waits for it, and that his leaving does not end it; that what it shows counts as told only when he says that it was; and that
it remembers the cells before it whose end nobody was told, so that their rest can stand before its own output.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from cellwright.asking import HeldLimit
from cellwright.errors import RecordError, SandboxLost, SessionBusy, SessionClosed
from cellwright.lease import Lease
from cellwright.record.journal import Journal
from cellwright.record.records import CellRunning
from cellwright.record.run_info import now
from cellwright.running import RunningCell
from cellwright.sandbox.door_holds import deadline_held
from cellwright_kernel.wire import Cell, Execute, Output, Text

_FIRST_NOTE_S: Final = 30.0
"""Seconds after which the journal first says what a running cell has shown; each next note comes after twice as long."""
_MOST_UNTOLD: Final = 8
"""Cells whose end nobody was told, and that are remembered; the run on disk has all."""


WaitsFor = Literal["answer", "approval", "effect"]
"""What a person is to give: the answer to a question of the cell's; an approval before it is executed, or before something leaves."""


@dataclass(frozen=True)
class ModelCall:
    """Which call of a model asked for a cell."""

    turn: int
    call_id: str


class Ongoing:
    """One cell.

    Args:
        cell: As it was opened.
        given: The lease of the sandbox that it runs in.
        journal: Where it is recorded.
        before: Cells before it, oldest first, whose end nobody was told.
    """

    def __init__(self, cell: Cell, given: Lease, journal: Journal, before: tuple[Ongoing, ...] = ()) -> None:
        self.cell = cell
        self.before = before
        """Cells before it whose end nobody was told; empty once its own driver was told of them."""
        self.running = RunningCell([], None)
        """What has come of it; replaced when it is posted."""
        self.shown: tuple[Output, ...] = ()
        """What its driver was told of it; empty until he was told anything."""
        self.was_answered = False
        """True once its driver was told that it was still running."""
        self.is_told = False
        """True once its driver was told how it ended."""
        self.unwanted = asyncio.Event()
        """Set once somebody asked for its end."""
        self.waits_for: WaitsFor | None = None
        """For what a person is waited for now; None: for nothing."""
        self.was_held = False
        """True once it had to wait for an approval."""
        self._questions = self._effects = 0
        self._limit: HeldLimit | None = None
        self._lease = given
        self._journal = journal
        self._ending: asyncio.Task[Cell] | None = None
        self._is_posted = False
        self._is_waited_for = False
        self._noted: tuple[Output, ...] = ()

    def opened(self, *, screen_before: str | None) -> Cell:
        """Return it as it is about to be posted, with the hash of what the screen shows."""
        self.cell = self.cell.model_copy(update={"started_at": now(), "screen_before": screen_before})
        return self.cell

    @property
    def has_ended(self) -> bool:
        """False while it runs."""
        return self._ending is not None and self._ending.done()

    @property
    def is_left(self) -> bool:
        """True when nobody waits for it now, and nobody was told how it ended."""
        return not self.is_told and not self._is_waited_for

    @property
    def untold(self) -> tuple[Ongoing, ...]:
        """The cells up to this one, oldest first, whose end nobody was told."""
        return (*self.before, *(() if self.is_told else (self,)))[-_MOST_UNTOLD:]

    def ends_with(self, ending: asyncio.Task[Cell]) -> None:
        """Say which task sees it through to its end."""
        self._ending = ending
        ending.add_done_callback(_look)

    @property
    def ending(self) -> asyncio.Task[Cell]:
        """The task that sees it through to its end."""
        assert self._ending is not None  # noqa: S101 - for the type checker; it was begun
        return self._ending

    @contextmanager
    def waited_for(self) -> Iterator[None]:
        """Be the one who waits for it and passes on what it shows, until that was told or nobody is there to be told.

        Raises:
            SessionBusy: Somebody else is.
        """
        if self._is_waited_for:
            raise SessionBusy(f"Somebody waits for cell {self.cell.number} already. It goes on undisturbed. Wait, too.")
        self._is_waited_for = True
        try:
            yield
        finally:
            self._is_waited_for = False

    async def by(self, reply_s: float | None) -> Cell:
        """Wait for its end, at most so many seconds; return it closed, or as it stands. Being cancelled ends the waiting.

        To be called while it is `waited_for`; what is returned counts as told when `told` is called with it.

        Raises:
            SessionClosed: The session was closed before it was posted.
        """
        await asyncio.wait({self.ending}, timeout=reply_s)
        stands = None if self.has_ended else await self._as_it_stands()
        if stands is None or self.has_ended:
            if self.ending.cancelled():
                self.is_told = True
                raise SessionClosed("The session was closed before the cell was posted. Nothing ran.")
            self.is_told = self.ending.exception() is not None  # which is raised now
            return self.ending.result()
        self._record(stands)
        return stands

    def told(self, cell: Cell) -> None:
        """Say that its driver was told of it as it is in `cell`, and of those before it."""
        self.before = ()
        if cell.status == "running":
            self.was_answered, self.shown = True, cell.outputs
        else:
            self.is_told = True

    def posted(self, *, deadline_s: float, named_s: float, waited_s: float) -> Execute:
        """Return what is about to be posted; from now on the kernel host ends it when it is asked to. Arguments as in `Execute`."""
        self._is_posted, cell = True, self.cell
        times = {"deadline_s": deadline_s, "named_s": named_s, "waited_s": waited_s}
        return Execute(number=cell.number, language=cell.language, code=cell.code, **times)

    @contextmanager
    def limited_by(self, limit: HeldLimit) -> Iterator[HeldLimit]:
        """Say what holds its time limit, out here, while it is posted."""
        self._limit = limit
        try:
            yield limit
        finally:
            self._limit = None

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Have its deadline not run during the block, for something that it is about to send waits for a person."""
        if self._limit is None:
            yield
            return
        self._says_what_waits(effects=self._effects + 1)
        try:
            with self._limit.held():
                async with deadline_held(self._lease.sandbox.door, self.cell.number):
                    yield
        finally:
            self._says_what_waits(effects=self._effects - 1)

    def asks_people(self, count: int) -> None:
        """Say how many of its questions wait for a person."""
        self._says_what_waits(questions=count)

    async def interrupt(self) -> None:
        """Ask for its end. One that is not posted yet never will be; one that is on its way ends as soon as it has arrived."""
        self.unwanted.set()
        if self._is_posted and not self.has_ended:
            # it arrives also when whoever asked hangs up; the door ends it in time
            asking = asyncio.ensure_future(self._lease.sandbox.door.interrupt(self.cell.language, self.cell.number))
            asking.add_done_callback(_look)
            await asyncio.shield(asking)

    async def end_within(self, seconds: float) -> None:
        """Ask it to end, wait so long, then give it up, and its sandbox with it."""
        if self.has_ended:
            return
        self.unwanted.set()
        # a task of its own: where the caller was cancelled, no timeout of his would be one
        asking = asyncio.ensure_future(self.interrupt())
        await asyncio.wait({self.ending}, timeout=seconds)
        self.ending.cancel()
        asking.cancel()
        await asyncio.gather(self.ending, asking, return_exceptions=True)

    async def note_now_and_then(self) -> None:
        """Write what it has shown into the journal while it runs, so that it is readable even if everything is killed."""
        wait_s = _FIRST_NOTE_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s *= 2
            stands = await self._as_it_stands()
            if stands.outputs != self._noted:
                with contextlib.suppress(RecordError):  # whatever it is, the cell's end will meet it, too
                    self._record(stands)

    async def _as_it_stands(self) -> Cell:
        """Return what it has shown by now: the kernel host's word; where that has none, what it had sent before."""
        asked = RunningCell([], None)
        try:
            async for event in self._lease.sandbox.door.so_far():
                asked.take(event)
        except SandboxLost:  # whoever reads its stream finds that, too
            asked = self.running
        outputs = asked.outputs or self.running.outputs
        return self.cell.model_copy(update={"outputs": (*self.running.notices, *outputs)})

    def _says_what_waits(self, *, questions: int | None = None, effects: int | None = None) -> None:
        self._questions = self._questions if questions is None else questions
        self._effects = self._effects if effects is None else effects
        self.waits_for = "effect" if self._effects else "answer" if self._questions else None

    def _record(self, stands: Cell) -> None:
        self._noted = stands.outputs
        stored = tuple(self._journal.store(output, cell=stands.number) for output in stands.outputs)
        self._journal.append(CellRunning(number=stands.number, outputs=stored))


def rest_of(cell: Cell, shown: tuple[Output, ...]) -> Cell:
    """Return a cell without what was shown of it before; of a text that has grown since, what is new."""
    rest: list[Output] = []
    for place, output in enumerate(cell.outputs):
        before = shown[place] if place < len(shown) else None
        if output == before:
            continue
        if isinstance(output, Text) and isinstance(before, Text) and _has_grown(before, output):
            output = output.model_copy(update={"text": output.text[len(before.text) :]})  # noqa: PLW2901 - the rest of it
        rest.append(output)
    return cell.model_copy(update={"outputs": tuple(rest)})


def _has_grown(before: Text, after: Text) -> bool:
    return before.source == after.source and before.text != "" and after.text.startswith(before.text)


def _look(ending: asyncio.Task[Any]) -> None:
    """Look at its error, if there is one: where nobody waits any more, it is the journal's alone, or nobody's."""
    if not ending.cancelled():
        ending.exception()
