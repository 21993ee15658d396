"""What a session's sandbox asked of its way out, as the run records it.

Flows in: requests as the egress proxy saw them, what was said in clear, what the inside tells of HTTPS, and which cell ran. Flows out: records, and bodies as
blobs. Decided here: how many of them stand each for itself; what comes beyond that during one cell, or between two, is only
counted, so that a cell which asks a million times cannot fill the run; and that a request which may change something is
recorded before it goes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from cellwright.egress import EgressRequest
from cellwright.egress.traffic import Body, Request, Traffic
from cellwright.egress.witness import Hears
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.record.way_out import CLAIMED_OF_EXCHANGE, CLAIMED_OF_REQUEST

REQUESTS: Final = 1000
"""Most records of requests of one cell, or of the time between two; a page of a newspaper makes some 300."""
_TARGET_CHARS: Final = 2000
_UNREAD: Final = "CONNECT"
"""Stands for a request that cannot be read, or is not recorded by itself."""


class Outgoing:
    """The requests of one session.

    Args:
        journal: Where they are recorded.
        executing: Returns the number of the cell that runs; None between cells.
        had: How many cells the run had when it was taken up again; absent: it is new.
    """

    def __init__(self, journal: Journal, executing: Callable[[], int | None], *, had: int | None = None) -> None:
        self._journal = journal
        self._had = had or 0
        self.rebuilds = had is not None
        """True while the cells that the run had are brought back; those are marked that they go out again."""
        self._executing = executing
        self._cell: int | None = None
        self._recorded = Counter[int | None]()
        self._exchanged = Counter[int | None]()
        self._sent = Counter[int | None]()
        self._more: dict[tuple[int | None, bool], records.EgressMore] = {}
        self.keeps_taped = True
        """False where what a tape answers is not recorded: it is the run's own, which has all of it already."""

    def began(self) -> Callable[[EgressRequest], None]:
        """A connection has come: it is the running cell's, however long it lasts. Return what is told of its request."""
        cell = self._executing()
        if cell != self._cell:
            self.settle()
            self._cell = cell
            del self._recorded[None], self._exchanged[None], self._sent[None]
        return partial(self._note, cell)

    def _note(self, cell: int | None, request: EgressRequest) -> None:
        """Record a request that is over, or count it."""
        if self._leaves_out(request.taped):
            return
        if self._recorded[cell] < REQUESTS:
            self._recorded[cell] += 1
            self._journal.append(records.Egress.of(request, cell=cell, rebuilt=self._is_rebuilt(cell)))
        else:
            key = cell, request.taped
            none = records.EgressMore(cell=cell, taped=request.taped, rebuilt=self._is_rebuilt(cell))
            self._more[key] = self._more.get(key, none).with_one(request)

    def of_tape(self) -> Hears:
        """Return who is told of what a tape answers, in place of this."""
        return _OfTape(self)

    def request(self, request: Request, *, taped: bool = False) -> int | None:
        """A request in clear is about to go out, of the cell that runs; where it may change something, that is on disk before."""
        cell = self._executing()
        if not request.changes_nothing:
            self._is_about_to_send(cell, request.method, request.host, request.port, request.target, taped=taped)
        return cell

    def has_room(self, cell: int | None) -> bool:
        """Return whether another response of a cell would be kept."""
        return self._exchanged[cell] < REQUESTS

    def response(self, traffic: Traffic, cell: int | None, *, taped: bool = False) -> None:
        """Its response has ended: keep both, unless the cell has had enough kept."""
        if self._leaves_out(taped) or not self.has_room(cell):
            return
        self._exchanged[cell] += 1
        request = traffic.request
        is_told = request.scheme == "https"
        self._journal.append(
            records.Exchanged(
                **self._marks(cell, taped),
                method=request.method,
                host=request.host,
                port=request.port,
                target=request.target,
                request_body=self._kept(traffic.request_body, cell, is_told=is_told),
                status=traffic.status,
                reason=traffic.reason,
                headers=traffic.headers,
                body=self._kept(traffic.body, cell, is_told=is_told),
                **({"scheme": "https", "claimed": CLAIMED_OF_EXCHANGE} if is_told else {}),
            )
        )

    def told(self, request: Request, cell: int | None, *, taped: bool) -> None:
        """The inside says that a request goes out by HTTPS. That something went out which cannot be read is recorded already."""
        if not request.changes_nothing:
            self._is_about_to_send(
                cell, request.method, request.host, request.port, request.target, taped=taped, is_told=True
            )

    def unread(self, host: str, port: int, *, taped: bool = False) -> None:
        """What is about to go out cannot be read: it may change anything."""
        self._is_about_to_send(self._executing(), _UNREAD, host, port, "", taped=taped)

    def _is_about_to_send(
        self,
        cell: int | None,
        method: str,
        host: str,
        port: int,
        target: str,
        *,
        taped: bool,
        is_told: bool = False,
    ) -> None:
        """Record it, as long as the cell has had few recorded; behind the last one stands that anything may have followed."""
        if self._leaves_out(taped) or self._sent[cell] > REQUESTS:
            return
        self._sent[cell] += 1
        if self._sent[cell] > REQUESTS:
            method, target = _UNREAD, ""
        said: dict[str, Any] = {"method": method, "host": host, "port": port, "target": target[:_TARGET_CHARS]}
        if is_told and method != _UNREAD:
            said |= {"scheme": "https", "claimed": CLAIMED_OF_REQUEST}
        self._journal.append(records.RequestSent(**self._marks(cell, taped), **said))

    def _kept(self, body: Body, cell: int | None, *, is_told: bool) -> records.KeptBody:
        hides = bool(body.data) and self._journal.would_hide((body.data or b"").decode("latin-1"))
        if hides and is_told:  # by HTTPS the value itself is in it: of a PIN the hash would tell it, too
            return records.KeptBody(size_bytes=body.size_bytes, sha256="", kept=False)
        if body.data and not hides:
            self._journal.blob(body.data, cell=cell)
        kept = bool(body.sha256) and (body.size_bytes == 0 or self._journal.keeps(body.sha256))
        return records.KeptBody(size_bytes=body.size_bytes, sha256=body.sha256, kept=kept)

    def settle(self) -> None:
        """Record how many were only counted, if any were."""
        while self._more:
            _, more = self._more.popitem()
            self._journal.append(more)

    def _marks(self, cell: int | None, taped: bool) -> dict[str, Any]:
        return {"cell": cell, "taped": taped, "rebuilt": self._is_rebuilt(cell)}

    def _is_rebuilt(self, cell: int | None) -> bool:
        """Whether it is a cell's that the run had, whose response may come when all is brought back."""
        return self.rebuilds if cell is None else cell <= self._had

    def _leaves_out(self, taped: bool) -> bool:
        return taped and not self.keeps_taped


class _OfTape:
    """Is told what a tape answers."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing

    def request(self, request: Request) -> int | None:
        return self._outgoing.request(request, taped=True)

    def response(self, traffic: Traffic, cell: int | None) -> None:
        self._outgoing.response(traffic, cell, taped=True)

    def unread(self, host: str, port: int) -> None:
        self._outgoing.unread(host, port, taped=True)
