"""What a run took, turn by turn and cell by cell: time, tokens, pictures, money. Made from its record alone.

Flows in: a `Run`, a table of prices. Flows out: a `Ledger`. Decided here: that money is told by the prices of whoever looks, each with where
it comes from, since a run knows none; that tokens which a server counted wrongly count as nothing; and that what a fork shares with
another run was paid there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from cellwright.model.base import Usage, usage_from
from cellwright.prices import Price, Prices
from cellwright.record import Record, Run, StoredCell
from cellwright.record.records import (
    ApprovalDecided,
    CellClosed,
    CellRebuilt,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    PersonAnswered,
)
from cellwright.record.stored import Recorded

_OF_PERSONS: Final = (PersonAnswered, ApprovalDecided)
"""Records that may say how long a person was waited for."""


class CellTook(Recorded):
    """What a cell took."""

    number: int
    language: str
    status: str | None
    """How it ended; absent when no end was recorded."""
    ms: int
    """Measured outside; 0 when no end was recorded."""


class Took(Recorded):
    """What a turn took, or several together."""

    model_ms: int = 0
    """From request to whole response, waiting among it."""
    waited_ms: int = 0
    """Of that, when nothing was asked: before another attempt, or for a limit of requests."""
    person_ms: int = 0
    """Waiting for a person."""
    cell_ms: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those that were in the server's cache."""
    cache_write_tokens: int = 0
    """Of the input tokens, those that the server wrote into it."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the output tokens, those that were reasoning."""
    image_patches: int | None = None
    """Of the pictures that were sent; absent: the record does not say."""
    cost: float | None = None
    """US dollars; absent: the price is not known, or the server did not say what was used."""


class TurnTook(Took):
    """One request to the model, and the cells that its response called for."""

    turn: int
    model: str
    is_answered: bool
    """False when there was no response."""
    is_shared: bool
    """True when it is another run's, of which this one is a fork."""
    cells: tuple[CellTook, ...] = ()


class Ledger(Recorded):
    """What a run took."""

    run_id: str
    turns: tuple[TurnTook, ...]
    other_cells: tuple[CellTook, ...]
    """Cells that no turn called for."""
    rebuilt_ms: int
    """In cells that were executed again since the run was taken up again."""
    total: Took
    """Of all turns that are its own, and of all cells."""
    prices: dict[str, str | None]
    """Name of each model -> its price, in words; absent: not known."""


def ledger_of(run: Run, prices: Prices) -> Ledger:
    """Return what a run took."""
    cells = run.stored_cells
    turns = tuple(_turns(run, prices))
    known = {turn.turn for turn in turns}
    others = tuple(_of_cell(cell) for cell in cells if cell.opened.turn not in known)
    names = dict.fromkeys(turn.model for turn in turns)
    found = {name: prices.of(name) for name in names}
    return Ledger(
        run_id=run.info.run_id,
        turns=turns,
        other_cells=others,
        rebuilt_ms=sum(record.duration_ms for record in run.records if isinstance(record, CellRebuilt)),
        total=_total([turn for turn in turns if not turn.is_shared], others),
        prices={name: price.words if price else None for name, price in found.items()},
    )


def requests_of(
    records: tuple[Record, ...],
) -> Iterator[tuple[int, ModelRequest, ModelResponse | ModelFailed | None, int]]:
    """Yield each request with its place, what came of it, and how long persons were waited for until the next."""
    places = [place for place, record in enumerate(records) if isinstance(record, ModelRequest)]
    for place, until in zip(places, [*places, len(records)][1:], strict=True):
        asked, behind = records[place], records[place + 1 : until]
        came = next((one for one in behind if isinstance(one, ModelResponse | ModelFailed)), None)
        waited = _waited_ms([one for one in behind if isinstance(one, _OF_PERSONS)])
        if isinstance(asked, ModelRequest):
            yield place, asked, came, waited


def _waited_ms(waits: list[PersonAnswered | ApprovalDecided]) -> int:
    """Return how long somebody was waited for: two at the same time count once. A record is made when its wait ends."""
    known = [(end, one.waited_ms or 0) for one in waits if (end := _ms(one.at)) is not None]
    together = sum(one.waited_ms or 0 for one in waits if _ms(one.at) is None)
    until: int | None = None
    for begin, end in sorted((end - wait_ms, end) for end, wait_ms in known):
        together += max(0, end - (begin if until is None else max(begin, until)))
        until = end if until is None else max(end, until)
    return together


def _ms(moment: str) -> int | None:
    """Return a moment in milliseconds; a run of somebody else's may hold what is none."""
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _turns(run: Run, prices: Prices) -> Iterator[TurnTook]:
    shared = _shared_records(run)
    called: dict[int | None, list[CellTook]] = {}
    for cell in run.stored_cells:
        called.setdefault(cell.opened.turn, []).append(_of_cell(cell))
    for place, asked, came, person_ms in requests_of(run.records):
        answered = isinstance(came, ModelResponse)
        usage = usage_from(came.response) if isinstance(came, ModelResponse) else Usage()
        price = prices.of(asked.model)
        cells = called.pop(asked.turn, []) if answered else []
        yield TurnTook(
            turn=asked.turn,
            model=asked.model,
            is_answered=answered,
            is_shared=place < shared,
            model_ms=came.duration_ms if isinstance(came, ModelResponse) else 0,
            waited_ms=came.waited_ms if isinstance(came, ModelResponse) else 0,
            person_ms=person_ms,
            cell_ms=sum(cell.ms for cell in cells),
            input_tokens=usage.input_tokens,
            cached_tokens=usage.cached_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            image_patches=asked.image_patches,
            cost=_cost(price, usage, answered=answered),
            cells=tuple(cells),
        )


def _shared_records(run: Run) -> int:
    """Return how many records a run has of the one that it was forked from."""
    if run.info.at is None:
        return 0
    ends = (
        place for place, one in enumerate(run.records, 1) if isinstance(one, CellClosed) and one.number == run.info.at
    )
    return next(ends, 0)


def _of_cell(cell: StoredCell) -> CellTook:
    closed = cell.closed
    return CellTook(
        number=cell.opened.number,
        language=cell.opened.language,
        status=closed.status if closed else None,
        ms=closed.duration_ms if closed else 0,
    )


def _cost(price: Price | None, usage: Usage, *, answered: bool) -> float | None:
    if price is None:
        return None
    return price.of_said(usage) if answered else 0.0


def _total(turns: list[TurnTook], others: tuple[CellTook, ...]) -> Took:
    """Add up; of pictures what was counted, and of money nothing where a part of it is not known."""
    costs = [turn.cost for turn in turns if turn.is_answered]
    patches = [turn.image_patches for turn in turns if turn.image_patches is not None]
    names = ("model_ms", "waited_ms", "person_ms", "cell_ms", *Usage.__dataclass_fields__)
    sums = {name: sum(getattr(turn, name) for turn in turns) for name in names}
    sums["cell_ms"] += sum(cell.ms for cell in others)
    known = [cost for cost in costs if cost is not None]
    return Took(
        **sums,
        image_patches=sum(patches) if patches else None,
        cost=sum(known) if len(known) == len(costs) else None,
    )
