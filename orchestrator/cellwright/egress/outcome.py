"""What came of something inside that asked for a way out.

Flows in: what `exchange.py` has seen of one connection. Flows out: a value that is told and recorded. Decided here: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EgressRequest:
    """Something inside asked for a way out, and what came of it. All of it was observed outside."""

    method: str
    """`CONNECT`, or the HTTP method of a plain request."""
    host: str
    """As the inside asked for it, in its plain form."""
    port: int
    allowed: bool
    """The verdict."""
    reason: str | None
    """The entry that let it through, or the sentence with which it was refused or failed."""
    address: str | None
    """The address that was connected to; None when none was."""
    sent_bytes: int
    """From inside to outside."""
    received_bytes: int
    started_at: str
    """Moment in UTC, ISO 8601 with milliseconds and `Z`."""
    duration_ms: int
    """Until the connection was over."""
    secrets: tuple[str, ...] = ()
    """Names of those whose values went out in its headers, or whose placeholders it was refused for."""
    taped: bool = False
    """Whether a record answered in place of the world: nothing went out."""
