"""The network of a run, as its record has it.

Flows in: a run. Flows out: a tape that answers as the world did. Decided here: that what may differ in
texts may differ in what is sent, too, up to a ceiling, since all requests wait while two bodies are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from cellwright.egress import Tape
from cellwright.egress.tape import Tells
from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.record import Run
from cellwright.record.records import Exchanged, KeptBody
from cellwright.replay.may_differ import MayDiffer

_MOST_BYTES: Final = 256 * 1024
"""Of a request's body: in longer ones nothing may differ."""


def tape_of(run: Run, tells: Tells, may_differ: MayDiffer) -> Tape:
    """Return the answers that a run was given.

    Args:
        run: The record.
        tells: Is told where a replay leaves the record.
        may_differ: What in the body of a request does not count.
    """
    made = datetime.fromisoformat(run.info.created_at)

    def load(sha256: str) -> bytes | None:
        return run.blobs.read(sha256) if run.blobs.has(sha256) else None

    def alike(then: Traffic, recorded: bytes, now: bytes) -> bool:
        one, two = recorded.decode("latin-1"), now.decode("latin-1")
        plain, other = may_differ.both((one, then.at or made), (two, datetime.now(UTC)), _MOST_BYTES)
        return plain.text == other.text

    return Tape(_traffic(run), load, tells, alike)


def _traffic(run: Run) -> Iterator[Traffic]:
    for record in run.records:
        if isinstance(record, Exchanged):
            request = Request(record.method, record.host, record.port, record.target, ())
            said, came = _body(record.request_body), _body(record.body)
            at = datetime.fromisoformat(record.at)
            yield Traffic(request, said, record.status, record.reason, record.headers, came, at)


def _body(kept: KeptBody) -> Body:
    return Body(kept.size_bytes, kept.sha256, None)
