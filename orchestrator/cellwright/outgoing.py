"""What a session's sandbox asked of its way out, as the run records it.

Flows in: requests as the egress proxy saw them, and which cell ran. Flows out: records. Decided here: how many of them
stand each for itself; what comes beyond that during one cell, or between two, is only counted, so that a cell which asks
a million times cannot fill the run.
"""

from __future__ import annotations

from collections.abc import Callable
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
        self._recorded = 0
        self._more: records.EgressMore | None = None

    def note(self, request: EgressRequest) -> None:
        """Record a request that is over, or count it."""
        cell = self._executing()
        if cell != self._cell:
            self.settle()
            self._cell, self._recorded = cell, 0
        if self._recorded < REQUESTS:
            self._recorded += 1
            self._journal.append(records.Egress.of(request, cell=cell))
        else:
            self._more = (self._more or records.EgressMore(cell=cell)).with_one(request)

    def settle(self) -> None:
        """Record how many were only counted, if any were."""
        more, self._more = self._more, None
        if more is not None:
            self._journal.append(more)
