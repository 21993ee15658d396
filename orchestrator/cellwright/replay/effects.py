"""What the cells of a run may have changed outside their sandbox.

Flows in: a run. Flows out: for each cell what it sent, in words. Decided here: that only GET, HEAD and OPTIONS change nothing;
that what could not be read may have been anything; and that what went out between two cells was the earlier one's, since a
page that it opened, or a thread that it started, sent it; and that what a record answered never went out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from cellwright.egress.traffic import READING
from cellwright.record import Run
from cellwright.record.records import CellOpened, Egress, EgressMore, Exchanged, Record, RequestSent


def sent_by_cells(run: Run) -> Mapping[int, tuple[str, ...]]:
    """Return cell number -> each thing that it sent, without repetition and in order; a cell that sent nothing is absent."""
    sent: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for number, words in _all_sent(run):
        sent[number][words] = None
    return {number: tuple(words) for number, words in sent.items()}


def _all_sent(run: Run) -> Iterator[tuple[int, str]]:
    looked_at = _looked_at(run.records)
    last = 0
    for record in run.records:
        match record:
            case CellOpened(number=number):
                last = number
            case RequestSent(taped=True) | Egress(taped=True) | EgressMore(taped=True):
                continue
            case RequestSent(method="CONNECT", host=host, port=port):
                yield record.cell or last, f"something unreadable, encrypted usually, to {host}:{port}"
            case RequestSent(method=method, host=host, port=port, target=target):
                yield record.cell or last, f"{method} {record.scheme or 'http'}://{host}:{port}{target}"
            case Egress(allowed=True, host=host, port=port) if record.sent_bytes and (host, port) not in looked_at:
                if record.method not in READING:
                    yield record.cell or last, f"{record.method} to {host}:{port}"
            case EgressMore() if record.allowed and not looked_at:
                yield record.cell or last, f"{record.allowed} more requests"
            case _:
                pass


def _looked_at(records: tuple[Record, ...]) -> set[tuple[str, int]]:
    """Return the places of which it was seen outside what was sent there: in older runs, of none."""
    of_requests = (record for record in records if isinstance(record, (Exchanged, RequestSent)))
    return {(record.host, record.port) for record in of_requests if not (record.taped or record.claimed)}
