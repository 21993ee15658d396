"""What is about to leave a sandbox, where a person has to approve it: a request is held until then.

Flows in: effects, as the egress proxy is about to let them out. Flows out: nothing, or the sentence with which one is refused. Decided here: that
a person is asked once for each cell and place; that a connection which cannot be looked into, or on which a request is still being sent, ends with the next
cell, whose approval it does not have; that what was given up while it waited is not sent, for it may have been tried again; and that of a cell
which has ended nothing new is approved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final
from weakref import WeakSet

from cellwright.approval import APPROVAL, checked_reason, result_of
from cellwright.asking import Approval, Approver, NotAsked, Pending
from cellwright.egress.leaving import Effect, Held
from cellwright.ongoing import Ongoing
from cellwright.people import People
from cellwright.policy import decide_effect
from cellwright.record.journal import Journal
from cellwright.record.records import ApprovalDecided, Note

PLACES: Final = 20
"""Most places that a person is asked about for one cell, or between two."""


class Leaving:
    """Asks about the effects of one session. Its proxy calls it.

    Args:
        people: Who approves, and by which rule.
        journal: Where that is recorded.
        ongoing: Returns the cell that was begun last; None before the first.
    """

    def __init__(self, people: People, journal: Journal, ongoing: Callable[[], Ongoing | None]) -> None:
        self._people = people
        self._journal = journal
        self._ongoing = ongoing
        self._asked: dict[
            tuple[int | None, str], asyncio.Task[str | None]
        ] = {}  # by cell and place; awaited in `begun`
        self._approved_on: WeakSet[Held] = WeakSet()

    async def __call__(self, effect: Effect, held: Held, *, taped: bool) -> str | None:
        """See `EffectGate`."""
        decision = decide_effect(self._people.approve)
        if decision.kind == "allow":
            return None
        ongoing = self._ongoing()
        runs = ongoing is not None and not ongoing.has_ended
        key = ongoing.cell.number if ongoing is not None and runs else None, effect.place
        if key not in self._asked:
            if len(self._asked) >= PLACES:
                return f"{effect.place} was not asked about: a person is asked about {PLACES} places for one cell. Nothing was sent."
            asking = self._denied(effect, decision.rule, ongoing if runs else None, taped=taped)
            self._asked[key] = asyncio.ensure_future(asking)
        asked = self._asked[key]
        is_open = not asked.done()
        await asyncio.wait({asked})
        if asked.cancelled():
            return f"{effect.place}: nobody had decided when the next cell began. Nothing was sent."
        denied = asked.result()
        if denied is not None or taped:
            return denied
        if is_open and held.has_hung_up():
            return f"{effect.place}: when it was approved, whoever was about to send had hung up. Nothing was sent."
        self._approved_on.add(held)
        return None

    async def begun(self) -> None:
        """A cell begins, or the session ends: what an earlier cell was approved for, or asks for, goes no further."""
        for held in self._approved_on:
            held.end_unsaid()
        self._approved_on.clear()
        asked, self._asked = self._asked, {}
        for asking in asked.values():
            asking.cancel()
        await asyncio.gather(*asked.values(), return_exceptions=True)

    async def _denied(self, effect: Effect, rule: str, ongoing: Ongoing | None, *, taped: bool) -> str | None:
        recorded = self._people.recorded if taped else None
        approver: Approver | None = recorded or self._people.approver
        cell = ongoing.cell if ongoing else None
        pending = Pending(
            cell.number if cell else None, cell.language if cell else None, cell.code if cell else "", rule,
            cell.screen_before if cell else None, effect=f"{effect}", place=effect.place,
        )  # fmt: skip
        if recorded is None:
            self._journal.append(
                Note(topic=APPROVAL, cell=pending.cell, text=f"A person is asked to approve {effect}. {rule}")
            )
        by_person, before_s = True, self._people.waits.total_s
        held: AbstractAsyncContextManager[None] = ongoing.held() if ongoing else nullcontext()
        try:
            async with held:
                with self._people.waits.waiting():
                    approval = await self._approved(approver, pending, ongoing)
        except NotAsked as error:
            approval, by_person = Approval(approved=False, reason=str(error)), False
        reason = checked_reason(approval)
        if recorded is None:
            self._journal.append(
                ApprovalDecided(
                    cell=pending.cell,
                    approved=approval.approved,
                    rule=rule,
                    by_person=by_person,
                    reason=reason,
                    place=effect.place,
                    waited_ms=round(1000 * (self._people.waits.total_s - before_s)),
                )
            )
        if approval.approved:
            return None
        if not by_person:
            return f"{effect.place}: what was to be sent has to be approved, and was not. Nothing was sent. {reason}"
        why = f"The reason given: {reason}" if reason else "No reason was given."
        return f"{effect.place}: a person denied what was to be sent. Nothing was sent. {why}"

    async def _approved(self, approver: Approver | None, pending: Pending, ongoing: Ongoing | None) -> Approval:
        if approver is None:
            raise NotAsked("Nobody can approve it in this run.")
        asking = asyncio.ensure_future(approver.approve(pending))
        waits: set[asyncio.Future[object]] = {asking}  # type: ignore[arg-type]  # futures of different results
        if ongoing is not None:
            waits.add(ongoing.ending)  # type: ignore[arg-type]  # the same
        try:
            await asyncio.wait(waits, timeout=self._people.longest_s, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise NotAsked("Nobody had decided when the cell ended, or when the time for that was over.")
            return result_of(asking)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
