"""Two runs side by side, cell by cell.

Flows in: two runs. Flows out: a comparison of each cell. Decided here: that pictures are compared in a sandbox of their own,
without a browser, and that there is one only if some picture differs in its bytes; and that of cells which only one
run has each is a difference; and that a cell which cannot be compared ends nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from cellwright.errors import CellwrightError, SandboxUnavailable
from cellwright.record import Run, StoredCell
from cellwright.replay.compare import Compared, Side, compare
from cellwright.replay.may_differ import MayDiffer
from cellwright.sandbox.base import Backend, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Area, PicturePair


async def diff(
    one: Run, other: Run, may_differ: MayDiffer, *, masks: Sequence[Area] = (), backend: Backend | None = None
) -> AsyncIterator[Compared]:
    """Yield a comparison for each cell that either run has, in order.

    Args:
        one: The one run.
        other: The other.
        may_differ: What of the texts does not count.
        masks: Of pictures; not looked at.
        backend: Where pictures are decoded; absent: the default one.

    Raises:
        JournalCorrupt: One of them is not as it was written.
        SandboxUnavailable: Pictures differ in their bytes, and no sandbox could be started to look at them.
    """
    one.must_be_whole()
    other.must_be_whole()
    ours, theirs = _by_number(one), _by_number(other)
    async with AsyncExitStack() as stack:
        looking = _Looking(stack, tuple(masks), backend)
        for number in sorted(ours.keys() | theirs.keys()):
            first, second = ours.get(number), theirs.get(number)
            if first is None or second is None:
                which = one if second is None else other
                yield Compared(number, "differs", (f"Only run {which.info.run_id} has it.",))
                continue
            try:
                compared = await compare(Side(one.blobs, first), Side(other.blobs, second), may_differ, looking.differ)
            except SandboxUnavailable:
                raise
            except CellwrightError as error:  # one that cannot be compared says nothing of the others
                yield Compared(number, "failed", (str(error),))
            else:
                yield _with_code(compared, first, second)


def _with_code(compared: Compared, first: StoredCell, second: StoredCell) -> Compared:
    is_same = (first.opened.language, first.opened.code) == (second.opened.language, second.opened.code)
    if is_same:
        return compared
    return replace(compared, verdict="differs", reasons=("Its code is another.", *compared.reasons))


def _by_number(run: Run) -> dict[int, StoredCell]:
    return {cell.opened.number: cell for cell in run.stored_cells}


class _Looking:
    """Compares pictures, in a sandbox that is started when the first are to be."""

    def __init__(self, stack: AsyncExitStack, masks: tuple[Area, ...], backend: Backend | None) -> None:
        self._stack = stack
        self._masks = masks
        self._backend = backend
        self._session: Session | None = None

    async def differ(self, one: bytes, other: bytes) -> tuple[Area, ...] | None:
        if self._session is None:
            runs = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="cellwright-diff-")))
            opened = Session.open(Spec(browser=False), backend=self._backend, runs=runs)
            self._session = await self._stack.enter_async_context(opened)
        return (await self._session.picture_difference(PicturePair(one=one, other=other, masks=self._masks))).areas
