"""The network of a run, as its record has it.

Flows in: a run. Flows out: a tape that answers as the world did. Decided here: that what may differ in
texts may differ in what is sent, too, up to a ceiling, since all requests wait while two bodies are compared; and which of
several executions of a cell its answers are those of.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from operator import itemgetter
from typing import Final

from cellwright.conversation import is_lost
from cellwright.egress import Tape
from cellwright.egress.tape import Tells
from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.record import Run
from cellwright.record.records import CellOpened, CellRebuilt, Exchanged, KeptBody, RequestSent, SessionOpened
from cellwright.replay.may_differ import MayDiffer
from cellwright_kernel.wire import Area

_MOST_BYTES: Final = 256 * 1024
"""Of a request's body: in longer ones nothing may differ."""
_SITE_ICON: Final = Area(124, 46, 28, 34)
"""Before the address in the bar of a browser window where it opens, which says whether the site has proved who it is. What a
record answers has no certificate."""
_PNG_HEAD_BYTES: Final = 24


def tape_of(run: Run, tells: Tells, may_differ: MayDiffer, answers: Iterable[Exchanged] | None = None) -> Tape:
    """Return the answers that a run was given.

    Args:
        run: The record.
        tells: Is told where a replay leaves the record.
        may_differ: What in the body of a request does not count.
        answers: Those that count; absent: what each cell was given when it was first executed to its end.
    """
    made = datetime.fromisoformat(run.info.created_at)

    def load(sha256: str) -> bytes | None:
        return run.blobs.read(sha256) if run.blobs.has(sha256) else None

    def alike(then: Traffic, recorded: bytes, now: bytes) -> bool:
        one, two = (data.decode("utf-8", "surrogateescape") for data in (recorded, now))  # each byte counts
        plain, other = may_differ.both((one, then.at or made), (two, datetime.now(UTC)), _MOST_BYTES)
        return plain.text == other.text

    if answers is not None:
        return Tape(map(_traffic, answers), load, tells, alike)
    first = first_of_cells(run)
    told = (one for one in first if isinstance(one, RequestSent) and one.scheme)
    sent = (Request(one.method, one.host, one.port, one.target, (), "https") for one in told)
    return Tape((_traffic(one) for one in first if isinstance(one, Exchanged)), load, tells, alike, sent)


def last_of_cells(run: Run) -> tuple[Exchanged | RequestSent, ...]:
    """Return what each cell sent, and was answered, when it was executed last with the world to answer: cell by cell, in order.

    What went out between two cells is the earlier one's. An execution that did not come to its end does not count.
    """
    found, last_live = _executions(run)
    of_last = [(number, record) for number, when, record in found if when == last_live.get(number, 0)]
    return tuple(record for _, record in sorted(of_last, key=itemgetter(0)))


def first_of_cells(run: Run) -> tuple[Exchanged | RequestSent, ...]:
    """Return the same of when each cell was first executed, but of a lost one that a resume executed again: of it as of its last.

    How far a lost one had come is not known, so its answers are not all there; what came of it is what later cells found.
    """
    found, last_live = _executions(run)
    lost = {cell.opened.number for cell in run.stored_cells if is_lost(cell)}
    counts = {number: when for number, when in last_live.items() if number in lost}
    of_first = [(number, record) for number, when, record in found if when == counts.get(number, 0)]
    return tuple(record for _, record in (sorted(of_first, key=itemgetter(0)) if counts else of_first))


def _executions(run: Run) -> tuple[list[tuple[int, int, Exchanged | RequestSent]], dict[int, int]]:
    """Return what went out, and of which taking up of the run each cell's last execution to its end is, with the world to answer.

    Each that went out comes with its cell, and with the taking up that it is of: 0 for the first execution.
    """
    found: list[tuple[int, int, Exchanged | RequestSent]] = []  # the cell, and of which taking up of the run it is
    last_live: dict[int, int] = {}
    taken_up = cell = 0
    for record in run.records:
        match record:
            case SessionOpened():
                taken_up += 1
            case CellOpened(number=number):
                cell = number
            case CellRebuilt(number=number) if record.status is not None:
                cell = number
                if record.is_live:
                    last_live[number] = taken_up
            case Exchanged() | RequestSent():
                found.append((record.cell or cell, taken_up if record.rebuilt else 0, record))
            case _:
                pass
    return found, last_live


def masks_of(run: Run, one: bytes, other: bytes) -> tuple[Area, ...]:
    """Return what of two pictures cannot be as it was where a record answers: the browser's word on a site's certificate.

    Both must be of the whole desktop, as far as their size says.
    """
    if not any(isinstance(record, Exchanged) and record.scheme for record in run.records):
        return ()
    size = (run.info.spec.get("width"), run.info.spec.get("height"))
    return (_SITE_ICON,) if _png_size(one) == _png_size(other) == size else ()


def _png_size(png: bytes) -> tuple[int, int] | None:
    if not png.startswith(b"\x89PNG") or len(png) < _PNG_HEAD_BYTES:
        return None
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def _traffic(record: Exchanged) -> Traffic:
    request = Request(record.method, record.host, record.port, record.target, (), record.scheme or "http")
    said, came = _body(record.request_body), _body(record.body)
    at = datetime.fromisoformat(record.at)
    return Traffic(request, said, record.status, record.reason, record.headers, came, at)


def _body(kept: KeptBody) -> Body:
    return Body(kept.size_bytes, kept.sha256, None)
