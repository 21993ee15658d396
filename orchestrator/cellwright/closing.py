"""The last things of a session while its sandbox lives.

Flows in: the lease, the Spec, and how the run ends. Flows out: files that are to be kept, and records. Decided here: their
order; that what an earlier cell said after the last one had ended is asked for once, when nothing else is left to do; and that
a run which could not be taken up again has the end that it had.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Self

from cellwright.errors import CellwrightError, SandboxLost
from cellwright.files import copy_out
from cellwright.lease import Lease
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.record.run_info import RunEnd
from cellwright.running import RunningCell


@dataclass
class End:
    """How the run ends, until it has."""

    status: RunEnd | None
    """Absent: the run is left without an end, as it was when it was taken up again."""
    reason: str | None = None
    """Why, as a sentence; absent when it is done."""
    summary: str | None = None
    """The model's last words; absent when there are none."""
    closed_because: str | None = None
    """Why the session closes, where that says nothing of the run; absent when it is simply closed."""
    is_as_before: bool = False
    """True until a run that was taken up again is where it was: whatever happens until then is no end of it."""

    @classmethod
    def of(cls, journal: Journal, *, is_new: bool) -> Self:
        """Return how a run ends whose session cannot be opened."""
        if is_new:
            return cls("failed", reason="The session could not be opened.")
        before = journal.end_before
        return (
            cls(None, is_as_before=True)
            if before is None
            else cls(before.status, before.reason, before.summary, is_as_before=True)
        )


def end_run(journal: Journal, end: End) -> None:
    """Record the run's end; one that was not taken further than it had come keeps the end, or the lack of one, that it had."""
    if end.status is None or (end.is_as_before and not journal.has_begun):
        journal.leave()
    else:
        journal.close(end.status, reason=end.reason, summary=end.summary)


def how_it_ended(error: BaseException) -> tuple[RunEnd, str]:
    """Return how a run ended whose session was left by an error, and why."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "It was interrupted from outside."
    return "failed", str(error) or type(error).__name__


async def finish(session_id: str, given: Lease, journal: Journal, end: End) -> None:
    """Copy out what is to be kept, record what came late, and record that the session has closed.

    Raises:
        CellwrightError: Not every file could be copied out; a run that was done has then failed.
        RecordError: The end could not be recorded.
    """
    written: tuple[records.CopiedFile, ...] = ()
    try:
        if given.spec.out is not None and given.lives:
            door, holds = given.sandbox.door, partial(_note_secret, journal)
            written = await copy_out(door, given.spec.out, given.entered, holds=holds)
    except CellwrightError as error:
        if end.status == "done":
            end.status, end.reason = "failed", f"Not every file was copied out: {error}"
        raise
    finally:
        await _record_late(given, journal)
        journal.append(records.SessionClosed(session_id=session_id, reason=end.closed_because, files=written))


def _note_secret(journal: Journal, path: str, name: str) -> None:
    journal.append(
        records.Note(topic="secrets", text=f"{path} was copied out and holds the value of the secret {name}.")
    )


async def _record_late(given: Lease, journal: Journal) -> None:
    if not given.lives:
        return
    await given.tell_rest()
    came = RunningCell([], None)
    try:
        async for event in given.sandbox.door.late():
            came.take(event)
    except SandboxLost as error:
        text = f"What earlier cells said after the last one is not known in full: {error}"
        journal.append(records.Note(topic="late", text=text))
    came.record_late(journal)
