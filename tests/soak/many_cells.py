"""Ten thousand cells in one session: neither slower at the end, nor larger.

Flows in: how many of them. Flows out: how long cells took at the beginning and at the end, and what has grown. Decided
here: the cells are of every kind, nine in Python to one in JavaScript; what is timed is `log(n)`, between the others. A
machine that others use is not the same after a minute: so the end is also compared with a session that was just opened,
in turns with it, and that ratio is what "slower" means.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import Final

from cellwright.session import Session
from cellwright_kernel.wire import Language
from tests.soak.holdings import Holdings, growth_outside, growth_since, holdings, own_descriptors

CELLS: Final = 10_000
WARM_UP: Final = 200
TIMED: Final = 300
"""Cells whose time is taken at the beginning, and at the end, in each session."""
TURNS: Final = 6

_KINDS: Final[tuple[tuple[Language, str, str], ...]] = (
    ("python", "log(N)", "ok"),
    ("python", "rows = [{'n': n} for n in range(N)]\nprint(len(rows))", "ok"),
    ("python", "log(N)", "ok"),
    ("python", "1/0", "error"),
    ("python", "log(N)", "ok"),
    ("python", "from PIL import Image\ndisplay(Image.new('RGB', (N % 50 + 1, 9)))", "ok"),
    ("python", "log(N)", "ok"),
    ("python", "import asyncio\nawait asyncio.sleep(0)\nN", "ok"),
    ("python", "log(N)", "ok"),
    ("javascript", "console.log(N)", "ok"),
)


@dataclass(frozen=True)
class Lasted:
    """What came of it; times are medians, in milliseconds."""

    cells: int
    first_ms: float
    """Of `log(n)` after the warm-up."""
    last_ms: float
    """The same after all cells."""
    ratio: float | None
    """At the end, in turns: this session's median by that of a new session; absent: not compared."""
    cells_a_second: float
    growth: list[str]
    """A sentence for each thing that there is more of than after the warm-up."""
    before: Holdings
    after: Holdings

    @property
    def host_ratio(self) -> float:
        """The kernel host's resident memory at the end by that after the warm-up."""
        return self.after.resident_kb["kernel host"] / self.before.resident_kb["kernel host"]


async def many_cells(scale: float, *, compared: bool) -> Lasted:
    """Execute them, and return what has changed.

    Args:
        scale: How many of them; 1 is all.
        compared: Whether to compare with a new session.
    """
    async with Session.open() as session:
        await _cells(session, WARM_UP)
        before, outside = await holdings(session), own_descriptors()
        timed = TIMED if compared else TIMED // 10
        first_ms = median(await _timed(session, timed))
        began = time.monotonic()
        count = round(CELLS * scale)
        await _cells(session, count)
        rate = count / (time.monotonic() - began)
        last_ms = median(await _timed(session, timed))
        growth, after = await growth_since(before, session)
        growth += await growth_outside(outside)
        ratio = await _compared_with_new(session) if compared else None
    return Lasted(count, first_ms, last_ms, ratio, rate, growth, before, after)


async def _compared_with_new(session: Session) -> float:
    async with Session.open() as new:
        await _cells(new, WARM_UP)
        pairs = [(await _timed(session, TIMED // TURNS), await _timed(new, TIMED // TURNS)) for _ in range(TURNS)]
    return median(median(old) / median(young) for old, young in pairs)


async def _timed(session: Session, count: int) -> list[float]:
    took = []
    for number in range(count):
        began = time.perf_counter()
        cell = await session.execute(f"log({number})")
        took.append((time.perf_counter() - began) * 1000)
        assert cell.text == str(number)
    return took


async def _cells(session: Session, count: int) -> None:
    for number in range(count):
        language, code, status = _KINDS[number % len(_KINDS)]
        cell = await session.execute(code.replace("N", str(number)), language=language)
        assert (cell.status, len(cell.outputs)) == (status, 1), f"{code}: {cell.text}"
