"""What executes the cells of one session: each from its opening in the journal to its end there.

Flows in: a cell that has begun, and its deadline. Flows out: the cell, closed; its records; and a screenshot that is being
fetched. Decided here: that a cell is journaled before it is posted and again before its answer is given; that a screenshot is
fetched beside the answer and before the next cell; which cells are closed without being posted; how long after its deadline a
cell is waited for; and that a sandbox which has not answered by then is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from cellwright.approval import Gate
from cellwright.asking import HeldLimit
from cellwright.deadlines import too_long
from cellwright.errors import CellwrightError, SandboxLost
from cellwright.lease import Lease
from cellwright.leaving import Leaving
from cellwright.ongoing import ModelCall, Ongoing
from cellwright.people import People
from cellwright.questions import Questions
from cellwright.record.journal import Journal
from cellwright.record.records import CellOpened
from cellwright.running import OnEvent, RunningCell, not_executable
from cellwright.sandbox.base import Sandbox
from cellwright.screen import Screen
from cellwright.secret_uses import SecretUses
from cellwright_kernel.wire import Cell, Execute

LADDER_S: Final = 3.0
"""Seconds after the deadline within which the kernel host has answered, whatever the cell does."""
GRACE_S: Final = 1.0
"""Seconds beyond that until its sandbox is replaced."""
START_GRACE_S: Final = 2.0
"""Seconds after the deadline for which a sandbox that is still starting is waited for, where its start counts."""


class Executor:
    """Executes the cells of one session.

    Args:
        given: The lease of its sandbox.
        journal: Where cells are recorded.
        uses: Answers what cells ask about secrets.
        people: Who can be asked.
        touch: Called when a cell has ended.
    """

    def __init__(
        self, given: Lease, journal: Journal, uses: SecretUses, people: People, touch: Callable[[], None]
    ) -> None:
        self._lease = given
        self._journal = journal
        self._secret_uses = uses
        self._people = people
        self._gate = Gate(people, journal)
        self._touch = touch
        self.screen = Screen(given, journal)
        """What its cells have shown there."""
        self.leaving: Leaving | None = None
        """Asks about what is about to leave; absent: nothing does."""
        self.is_over = False
        """True once the session is being closed: a cell that ends now is told so."""

    async def execute(
        self,
        ongoing: Ongoing,
        deadline_s: float,
        on_event: OnEvent | None,
        *,
        call: ModelCall | None,
        since: float | None,
    ) -> Cell:
        """See a cell through to its end and return it closed. Arguments as in `Session.begin`."""
        try:
            await self.screen.taken()
            if self.leaving is not None:
                await self.leaving.begun()
            self._record_opened(ongoing, deadline_s, call)
            try:
                arrived = time.monotonic()
                denied = await self._gate.denied(ongoing)
                if since is not None:  # while a person is waited for, no time runs
                    since += time.monotonic() - arrived
                moment = None if since is None else since + deadline_s + START_GRACE_S
                ready = denied is not None or ongoing.unwanted.is_set() or await self._ready_by(moment)
            except (CellwrightError, asyncio.CancelledError) as error:
                self._close_without_sandbox(ongoing.cell, error)
                raise
            started = time.monotonic()
            ongoing.running = running = RunningCell(self._lease.take_notices(), on_event)
            if not ready:
                running.still_starting()
            elif denied is not None:
                running.denied(denied)
            elif (fault := self._not_to_be_posted(ongoing.cell)) is not None:
                running.refused(fault)
            elif ongoing.unwanted.is_set():
                running.not_posted()
            else:
                left_s = deadline_s if since is None else max(0.1, since + deadline_s - started)
                await self._post(ongoing, left_s, named_s=deadline_s, journal=self._journal)
            if self.is_over:
                running.closed_with_its_session()
            cell = running.close(ongoing.cell, duration_ms=round((time.monotonic() - started) * 1000))
            running.record(cell, self._journal)
            if cell.status != "sandbox_lost":
                self.screen.take(after_cell=cell.number, changed=running.screen_changed)
            return cell
        finally:
            self._touch()

    async def again(self, ongoing: Ongoing, deadline_s: float, *, within: Sandbox) -> Cell:
        """Execute a cell of the record for what it leaves in a new sandbox, and return it closed; nothing is recorded here.

        Raises:
            SandboxLost: That sandbox is no more. No other takes its place: what earlier cells left would not be in it.
        """
        try:
            self._lease.still(within)
            if self.leaving is not None:
                await self.leaving.begun()
            started = time.monotonic()
            ongoing.running = running = RunningCell([], None)
            if (fault := self._not_to_be_posted(ongoing.cell)) is not None:
                running.refused(fault)
            else:
                await self._post(ongoing, deadline_s, named_s=deadline_s, journal=None)
            return running.close(ongoing.cell, duration_ms=round((time.monotonic() - started) * 1000))
        finally:
            self._touch()

    async def end(self, ongoing: Ongoing) -> None:
        """Ask a cell to end; one that has not by the time its kernel host has for that is given up, and its sandbox with it."""
        await ongoing.end_within(LADDER_S + GRACE_S)

    async def close(self) -> None:
        """Take what is still to be taken of the screen; nobody is asked about anything any more."""
        await self.screen.taken()
        if self.leaving is not None:
            await self.leaving.begun()

    def _record_opened(self, ongoing: Ongoing, deadline_s: float, call: ModelCall | None) -> None:
        cell = ongoing.opened(screen_before=self.screen.sha256)
        turn, call_id = (None, None) if call is None else (call.turn, call.call_id)
        self._journal.append(CellOpened.of(cell, deadline_s=deadline_s, turn=turn, call_id=call_id))

    async def _ready_by(self, moment: float | None) -> bool:
        """See to it that there is a living sandbox; False when that took longer than to a moment of the monotonic clock."""
        try:
            async with asyncio.timeout(None if moment is None else moment - time.monotonic()):
                await self._lease.living()
        except TimeoutError:
            return False
        return True

    def _close_without_sandbox(self, cell: Cell, error: BaseException) -> None:
        """Give a cell its end that was opened and has no sandbox to run in: without one it would count as lost while it ran."""
        running = RunningCell([], None)
        if self.is_over or not isinstance(error, CellwrightError):
            running.not_posted()
        else:
            running.refused(f"There was no sandbox for this cell, and nothing of it ran. {error}")
        if self.is_over:
            running.closed_with_its_session()
        running.record(running.close(cell, duration_ms=0), self._journal)

    def _not_to_be_posted(self, cell: Cell) -> str | None:
        """Return why no kernel is to get its code, as a sentence; None when there is no reason."""
        return not_executable(cell.code) or too_long(cell.code, cell.language, self._lease.spec)

    async def _post(self, ongoing: Ongoing, deadline_s: float, *, named_s: float, journal: Journal | None) -> None:
        """Post a cell and see it through; without a journal it is one of the record, and people are not asked."""
        running = ongoing.running
        waited_s = LADDER_S + GRACE_S
        request = ongoing.posted(deadline_s=deadline_s, named_s=named_s, waited_s=waited_s)
        noting = asyncio.ensure_future(ongoing.note_now_and_then())  # ended below
        try:
            async with asyncio.timeout(deadline_s + waited_s) as limit:
                with ongoing.limited_by(HeldLimit(limit)) as held:
                    await self._heard(ongoing, request, journal, held)
        except (SandboxLost, TimeoutError) as error:
            self._lose(running, str(error) or "The kernel host did not answer in time.")
        except asyncio.CancelledError:  # by end() alone: what it has said until now is its record
            self._lose(running, "The cell did not end when it was told to.")
        finally:
            noting.cancel()
            await asyncio.gather(noting, return_exceptions=True)

    async def _heard(self, ongoing: Ongoing, request: Execute, journal: Journal | None, limit: HeldLimit) -> None:
        door = self._lease.sandbox.door
        asks = Questions.of(self._people, journal, door, request.number, limit=limit, on_waiting=ongoing.asks_people)
        async with asks as questions:
            async for event in self._secret_uses.answered(door, request):
                questions.take(event)
                ongoing.running.take(event)

    def _lose(self, running: RunningCell, reason: str) -> None:
        """The sandbox is of no use any more: end it, and say what that means."""
        self._lease.lose()
        running.lost(reason)
