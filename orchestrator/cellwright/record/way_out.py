"""The records of what a sandbox asked of its way out.

Flows in: what the egress proxy saw, and what the inside tells of HTTPS. Flows out: records. Decided here: their fields, as in
`records.py`, and what of a request by HTTPS is only the inside's word.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, Literal, Self

from cellwright.record.noted import Noted
from cellwright.record.run_info import now
from cellwright.record.stored import Milliseconds, Recorded

if TYPE_CHECKING:
    from cellwright.egress.outcome import EgressRequest

CLAIMED_OF_REQUEST: Final = ("cell", "method", "host", "port", "target")
"""What of a request by HTTPS is the inside's word; that its host may be asked was checked outside."""
CLAIMED_OF_EXCHANGE: Final = (*CLAIMED_OF_REQUEST, "request_body", "status", "reason", "headers", "body")


class _WayOut(Noted):
    cell: int | None = None
    """Number of the cell that ran when its connection came, or the request went out; absent between cells."""
    taped: bool = False
    """Whether a run's record answered in place of the world: nothing went out."""
    rebuilt: bool = False
    """Whether it went out while what a cell had left was brought back: the cell has sent it before."""


class Egress(_WayOut):
    """Something inside asked for a way out."""

    type: Literal["egress"] = "egress"
    method: str
    """`CONNECT`, or the HTTP method of a plain request."""
    host: str
    """As the inside asked for it."""
    port: int
    allowed: bool
    reason: str | None = None
    """The allow-list entry that let it through, or why it was refused; absent when there is nothing to say."""
    address: str | None = None
    """The address that was connected to; absent when none was."""
    sent_bytes: int
    """From inside to outside."""
    received_bytes: int
    started_at: str
    """When it came: UTC, ISO 8601 with milliseconds and `Z`. `at` is when it was over."""
    duration_ms: Milliseconds
    """Until it was over."""
    secrets: tuple[str, ...] | None = None
    """Names of those whose values went out in its headers, or whose placeholders it was refused for; absent: none."""

    @classmethod
    def of(cls, request: EgressRequest, *, cell: int | None = None, rebuilt: bool = False) -> Self:
        """Return the record of what the egress proxy saw while this cell ran; absent: none did."""
        return cls(cell=cell, rebuilt=rebuilt, **{**asdict(request), "secrets": request.secrets or None})


class EgressMore(_WayOut):
    """Requests for a way out, beyond those that have a record each: only counted."""

    type: Literal["egress_more"] = "egress_more"
    allowed: int = 0
    refused: int = 0
    sent_bytes: int = 0
    """From inside to outside."""
    received_bytes: int = 0

    def with_one(self, request: EgressRequest) -> Self:
        """Return it with one more counted."""
        return self.model_copy(
            update={
                "at": now(),
                "allowed": self.allowed + request.allowed,
                "refused": self.refused + (not request.allowed),
                "sent_bytes": self.sent_bytes + request.sent_bytes,
                "received_bytes": self.received_bytes + request.received_bytes,
            }
        )


class RequestSent(_WayOut):
    """A request is about to go out that may change something outside; on disk before it has."""

    type: Literal["request_sent"] = "request_sent"
    method: str
    """`CONNECT` where it cannot be read: anything may be in it."""
    host: str
    port: int
    target: str = ""
    """Path and query; empty where it cannot be read."""
    scheme: Literal["https"] | None = None
    """Absent: it was seen outside, in clear or as a CONNECT that cannot be read."""
    claimed: tuple[str, ...] | None = None
    """Fields that are the inside's word, of a request that only the browser saw: it may have gone out when this was told."""


class KeptBody(Recorded):
    """What a request or a response carried."""

    size_bytes: int
    sha256: str
    """Hash of all of it, 64 hex digits; empty where not all of it was seen, or by HTTPS the value of a secret is in it."""
    kept: bool = True
    """True when it is a blob of the run, or empty."""


class Exchanged(_WayOut):
    """A request that went out, and its response: in clear, as both were seen outside; by HTTPS, as the browser saw them."""

    type: Literal["exchanged"] = "exchanged"
    method: str
    host: str
    port: int
    target: str
    """Path and query."""
    request_body: KeptBody
    status: int
    reason: str = ""
    """Of the status line."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of the response, in order."""
    body: KeptBody
    """As it stood on the wire; by HTTPS as the page was given it, decompressed, and where it is text as UTF-8."""
    scheme: Literal["https"] | None = None
    """Absent: in clear."""
    claimed: tuple[str, ...] | None = None
    """Fields that are the inside's word; absent: none is."""
