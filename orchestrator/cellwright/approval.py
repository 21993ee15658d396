"""A decision that waits for a person.

Flows in: a cell that is about to be posted. Flows out: nothing, when it may be; else the sentence that its driver is told in place of its
outputs. Decided here: that the record has who decided and why; that nobody's approval is none; and that whoever interrupts the cell
ends the waiting.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from cellwright.asking import Approval, NotAsked, Pending
from cellwright.counted import counted
from cellwright.ongoing import Ongoing
from cellwright.people import People
from cellwright.policy import Decision, decide
from cellwright.record.journal import Journal
from cellwright.record.records import ApprovalDecided, Note

APPROVAL: Final = "approval"
"""Topic of the note that a cell waits for a person's approval."""
REASON_CHARS: Final = 2000
"""Most characters of a reason."""

_log = logging.getLogger("cellwright.approval")


class Gate:
    """What each cell of a session has to pass.

    Args:
        people: Who approves, and by which rule.
        journal: Where that is recorded.
    """

    def __init__(self, people: People, journal: Journal) -> None:
        self._people = people
        self._journal = journal

    async def denied(self, ongoing: Ongoing) -> str | None:
        """Wait until a cell may be posted, or its end was asked for; return why it may not be, as a sentence."""
        decision = decide(self._people.approve)
        if decision.kind == "allow":
            return None
        cell = ongoing.cell
        self._journal.append(Note(topic=APPROVAL, cell=cell.number, text=asked_of(decision)))
        pending = Pending(cell.number, cell.language, cell.code, decision.rule, cell.screen_before)
        ongoing.waits_for, ongoing.was_held = "approval", True
        try:
            with self._people.waits.waiting():
                return await self._decided(pending, decision, ongoing)
        finally:
            ongoing.waits_for = None

    async def _decided(self, pending: Pending, decision: Decision, ongoing: Ongoing) -> str | None:
        by_person, before_s = True, self._people.waits.total_s
        try:
            approval = await self._approved(pending, ongoing.unwanted)
        except NotAsked as error:
            approval, by_person = Approval(approved=False, reason=str(error)), False
        if approval is None:  # it is not wanted any more
            return None
        reason = checked_reason(approval)
        self._journal.append(
            ApprovalDecided(
                cell=pending.cell,
                approved=approval.approved,
                rule=decision.rule,
                by_person=by_person,
                reason=reason,
                waited_ms=round(1000 * (self._people.waits.total_s - before_s)),
            )
        )
        if approval.approved:
            return None
        if not by_person:
            return f"The cell was not executed: it has to be approved, and was not. {reason}"
        why = f"The reason given: {reason}" if reason else "No reason was given."
        return f"The cell was not executed: a person denied it. {why}"

    async def _approved(self, pending: Pending, unwanted: asyncio.Event) -> Approval | None:
        approver = self._people.approver
        if approver is None:
            raise NotAsked("Nobody can approve it in this run.")
        asking = asyncio.ensure_future(approver.approve(pending))
        ending = asyncio.ensure_future(unwanted.wait())
        try:
            await asyncio.wait({asking, ending}, timeout=self._people.longest_s, return_when=asyncio.FIRST_COMPLETED)
            if unwanted.is_set():
                return None
            if not asking.done():
                raise NotAsked(f"Nobody has decided within {counted(round(self._people.longest_s), 'second')}.")
            return result_of(asking)
        finally:
            asking.cancel()
            ending.cancel()
            await asyncio.gather(asking, ending, return_exceptions=True)


def asked_of(decision: Decision) -> str:
    """Return what is noted of a cell that waits for its approval."""
    return f"A person is asked to approve it. {decision.rule}"


def checked_reason(approval: Approval) -> str | None:
    """Return a reason as it can be passed on; None where there is none."""
    return (approval.reason or "").strip()[:REASON_CHARS].encode("utf-8", "replace").decode() or None


def result_of(asking: asyncio.Future[Approval]) -> Approval:
    """Return what an approver said.

    Raises:
        NotAsked: They could not.
    """
    try:
        return asking.result()
    except NotAsked:
        raise
    except Exception as error:
        _log.exception("Whoever was to ask a person for an approval could not.")
        raise NotAsked(f"Nobody could be asked: {type(error).__name__}.") from error
