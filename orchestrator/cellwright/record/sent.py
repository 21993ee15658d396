"""Records of what a model is sent, and on what terms.

Flows in: what the loop decided. Flows out: records. Decided here: that a step which leaves something out is recorded with what it left,
so that a resumed run does the same step instead of deciding again.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cellwright.record.noted import Noted
from cellwright.record.stored import Foreign
from cellwright_kernel.wire import Language


class HistoryShortened(Noted):
    """From here on the model is sent less of what was said and done: it leaves what it says, and the record has all of it."""

    type: Literal["history_shortened"] = "history_shortened"
    how: Literal["pictures", "summary"]
    """`pictures`: old ones are no longer sent. `summary`: all before the last turn but what the model was told is not."""
    pictures_kept: int | None = None
    """So many stay at least, the newest; absent where it is no such step."""
    pictures_dropped: int = 0
    """So many went with this step."""
    summary: str | None = None
    """The model's own, which is sent instead; absent where it is no such step."""


class TermsSet(Noted):
    """On what terms a model drives from here on, where they are not the usual ones; what is absent is as usual."""

    type: Literal["terms_set"] = "terms_set"
    pictures: str | None = None
    """How many pictures are sent, as MOST:KEPT, or `all`."""
    compact_at: int | None = None
    """Estimated tokens of a request, above which the model is asked for a summary first."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Files of prompts that took the place of ours, by name."""
    result_schema: Foreign = None
    """JSON schema that the final answer must satisfy."""
    verify: str | None = None
    """Command that had to succeed outside before the run was done. It is shown, never executed from here."""
    verify_cell: str | None = None
    """Code that had to succeed in the session before the run was done."""
    verify_language: Language | None = None
    """Of that code."""
