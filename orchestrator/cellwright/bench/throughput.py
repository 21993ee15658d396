"""Ten sessions at once: cells a second over `POST /execute`, and of ten stock ipykernels over raw jupyter_client.

Flows in: nothing. Flows out: a row. Decided here: that the sessions have no browser, which would not be used; that each side
does the same number of cells in each session at the same time, in turns with the other, while the other is idle; and that
each stock kernel has a client process of its own, while ours share one: what it costs to ask counts on both sides.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import httpx2

from cellwright.bench.rows import Row
from cellwright.bench.service import answered, program, service
from cellwright.errors import EnvironmentMissing

SESSIONS: Final = 10
CELLS: Final = 30
TURNS: Final = 3
_STARTING: Final = 3
"""So many are started at a time: a start takes a second of a core."""


def measure() -> list[Row]:
    """Measure; takes about 20 s.

    Raises:
        EnvironmentMissing: A session or a stock kernel did not come up.
    """
    with service() as client, ExitStack() as undo, ThreadPoolExecutor(SESSIONS) as threads:
        ids = [uuid.uuid4().hex for _ in range(SESSIONS)]
        with ThreadPoolExecutor(_STARTING) as starting:
            list(starting.map(lambda name: _open(client, name), ids))
        file = Path(__file__).with_name("stock.py")
        kernels = [undo.enter_context(program(file, "A stock kernel")) for _ in ids]
        list(threads.map(lambda ask: ask("1"), kernels))
        ours, stock = [], []
        for _ in range(TURNS):
            ours.append(_rate(threads, [partial(_cells, client, name) for name in ids]))
            stock.append(_rate(threads, [partial(ask, str(CELLS)) for ask in kernels]))
    what = f"{SESSIONS} sessions at once, log(1)"
    return [
        Row(
            what=what,
            ours=round(median(ours)),
            baseline=round(median(stock)),
            unit="cells/s",
            stock=f"{SESSIONS} stock ipykernels, raw client",
        )
    ]


def _open(client: httpx2.Client, session_id: str) -> None:
    response = client.post("/v1/sessions", json={"session_id": session_id, "browser": False})
    if response.status_code != 201:
        raise EnvironmentMissing(f"No session could be opened: {response.text[:500]} Run `cellwright doctor`.")
    answered(client, session_id, "python", "log(1)")


def _cells(client: httpx2.Client, session_id: str) -> None:
    for _ in range(CELLS):
        _, said = answered(client, session_id, "python", "log(1)")
        if said != "1":
            raise EnvironmentMissing(f"`log(1)` did not answer 1 but: {said[:500]} Run `cellwright doctor`.")


def _rate(threads: ThreadPoolExecutor, work: list[Callable[[], object]]) -> float:
    started = time.perf_counter()
    list(threads.map(lambda do: do(), work))
    return len(work) * CELLS / (time.perf_counter() - started)
