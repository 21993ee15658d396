"""What a session's sandbox asked of its way out, as the run records it.

Flows in: requests as the egress proxy saw them, and which cell ran. Flows out: records. Decided here: how many of them
stand each for itself; what comes beyond that during one cell, or between two, is only counted, so that a cell which asks
a million times cannot fill the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from cellwright.egress import EgressRequest
from cellwright.record import records
from cellwright.record.journal import Journal

REQUESTS: Final = 1000
"""Most records of requests of one cell, or of the time between two; a page of a newspaper makes some 300."""


class Outgoing:
    """The requests of one session.

    Args:
        journal: Where they are recorded.
        executing: Returns the number of the cell that runs; None between cells.
    """

    def __init__(self, journal: Journal, executing: Callable[[], int | None]) -> None:
        self._journal = journal
        self._executing = executing
        self._cell: int | None = None
        self._recorded = Counter[int | None]()
        self._more: dict[int | None, records.EgressMore] = {}

    def began(self) -> Callable[[EgressRequest], None]:
        """A connection has come: it is the running cell's, however long it lasts. Return what is told of its request."""
        cell = self._executing()
        if cell != self._cell:
            self.settle()
            self._cell = cell
            del self._recorded[None]
        return partial(self._note, cell)

    def _note(self, cell: int | None, request: EgressRequest) -> None:
        """Record a request that is over, or count it."""
        if self._recorded[cell] < REQUESTS:
            self._recorded[cell] += 1
            self._journal.append(records.Egress.of(request, cell=cell))
        else:
            self._more[cell] = self._more.get(cell, records.EgressMore(cell=cell)).with_one(request)

    def settle(self) -> None:
        """Record how many were only counted, if any were."""
        while self._more:
            _, more = self._more.popitem()
            self._journal.append(more)
