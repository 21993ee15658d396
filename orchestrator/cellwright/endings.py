"""The ways in which a run by a model ends: one family of exceptions.

Flows in: a reason, and the model's last words where there are any. Flows out: something that the loop has one `except`
for, so that the record is complete whichever came. Decided here: which status of the run each of them is.
"""

from __future__ import annotations

from typing import ClassVar

from cellwright.record.run_info import RunEnd


class RunEnded(Exception):
    """Base of the ways to end."""

    status: ClassVar[RunEnd]

    def __init__(self, reason: str | None = None, *, summary: str | None = None) -> None:
        super().__init__(reason or self.status)
        self.reason = reason
        self.summary = summary


class Finished(RunEnded):
    """The model has said its last word."""

    status = "done"


class Refused(RunEnded):
    """The model doesn't want to."""

    status = "failed"


class NotVerified(RunEnded):
    """It said more than once that it was done, and what the user wants to hold does not."""

    status = "failed"


class ResponseUnusable(RunEnded):
    """There is nothing in the response to go on with, or no response."""

    status = "failed"


class BudgetSpent(RunEnded):
    """It may go on no longer."""

    status = "budget"


class Stuck(RunEnded):
    """It goes on and gets nowhere."""

    status = "stuck"


class Stopped(RunEnded):
    """Somebody cancelled it."""

    status = "cancelled"
