"""The last things of a session while its sandbox lives.

Flows in: the lease, the Spec, and how the run ends. Flows out: files that are to be kept, and records. Decided here: their
order, and that what an earlier cell said after the last one had ended is asked for once, when nothing else is left to do.
"""

from __future__ import annotations

from dataclasses import dataclass

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


async def finish(session_id: str, given: Lease, journal: Journal, end: End) -> None:
    """Copy out what is to be kept, record what came late, and record that the session has closed.

    Raises:
        CellwrightError: Not every file could be copied out; a run that was done has then failed.
        RecordError: The end could not be recorded.
    """
    written: tuple[records.CopiedFile, ...] = ()
    try:
        if given.spec.out is not None and given.lives:
            written = await copy_out(given.sandbox.door, given.spec.out, given.entered)
    except CellwrightError as error:
        if end.status == "done":
            end.status, end.reason = "failed", f"Not every file was copied out: {error}"
        raise
    finally:
        await _record_late(given, journal)
        journal.append(records.SessionClosed(session_id=session_id, reason=end.closed_because, files=written))


async def _record_late(given: Lease, journal: Journal) -> None:
    if not given.lives:
        return
    came = RunningCell([], None)
    try:
        async for event in given.sandbox.door.late():
            came.take(event)
    except SandboxLost as error:
        text = f"What earlier cells said after the last one is not known in full: {error}"
        journal.append(records.Note(topic="late", text=text))
    came.record_late(journal)
