"""What the screen showed after a session's cells.

Flows in: the number of a cell that has ended, and whether anything was drawn. Flows out: screenshots in the journal, and
the hash of the last one. Decided here: that the screenshot is fetched beside the answer, yet before the next cell; that the
kernel host begins it when the cell ends; that none is taken when it says that nothing was drawn since the last one of the
same sandbox; and that where no cell follows at once it is looked again, for what the cell has left moving.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from cellwright.errors import CellwrightError
from cellwright.lease import Lease
from cellwright.record import records
from cellwright.record.journal import Journal
from cellwright.sandbox.base import Sandbox

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_RESTS_S: Final = 1.0
"""After this a page has mostly come to rest; a model that looks at a screenshot takes longer before its next cell."""
LOOKED_AGAIN_S: Final = _RESTS_S + 0.3
"""Where nothing came for so long after a cell, the screen was looked at again."""


class Screen:
    """The screen of one session.

    Args:
        given: The lease of its sandbox.
        journal: Where screenshots are kept.
    """

    def __init__(self, given: Lease, journal: Journal) -> None:
        self._lease = given
        self._journal = journal
        self._taking: asyncio.Task[None] | None = None  # awaited before the next cell and when the session closes
        self._later: asyncio.TimerHandle | None = None
        self._tag: str | None = None
        self._of: Sandbox | None = None
        self._in_doubt = False
        self.sha256: str | None = None
        """Of the last screenshot that was kept; absent until there is one."""

    def take(self, *, after_cell: int, changed: bool) -> None:
        """Take a screenshot after a cell, in the background, if need be.

        Args:
            after_cell: Number of the cell.
            changed: False when the kernel host says that nothing was drawn since its last screenshot.
        """
        if changed or self._in_doubt or self._tag is None or self._of is not self._lease.sandbox:
            self._begin(after_cell, left_by=after_cell)
            self._later = asyncio.get_running_loop().call_later(_RESTS_S, self._again, after_cell)

    def _again(self, number: int) -> None:
        if self._taking is None or self._taking.done():
            self._begin(number)

    def _begin(self, number: int, *, left_by: int | None = None) -> None:
        self._taking = asyncio.ensure_future(self._take(number, left_by=left_by))

    async def taken(self) -> None:
        """Wait until the screenshot that is being taken, if one is, was taken; none is begun after that."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._taking is not None:
            await asyncio.gather(self._taking, return_exceptions=True)
            self._taking = None

    def seen_by_others(self) -> None:
        """Somebody else was given a screenshot: for the kernel host that is now the last one."""
        self._in_doubt = True

    async def _take(self, number: int, *, left_by: int | None) -> None:
        """Keep a screenshot, if it shows anything new; what a reader can't tell from there being none is noted."""
        if not self._lease.lives:
            self._none("The sandbox had ended.", number)
            return
        sandbox, self._in_doubt = self._lease.sandbox, False
        try:
            taken = await sandbox.door.screenshot(self._tag, left_by=left_by)
        except CellwrightError as error:
            self._none(str(error), number)
            self._in_doubt = True
            return
        self._of = sandbox
        if taken is not None:
            png, self._tag = taken
            tag = self._tag.strip('"')
            pixels = tag if _SHA256.fullmatch(tag) else None
            self.sha256 = self._journal.screenshot(png, after_cell=number, pixels_sha256=pixels)

    def _none(self, why: str, number: int) -> None:
        self._journal.append(records.Note(topic="screen", text=f"No screenshot could be taken: {why}", cell=number))
