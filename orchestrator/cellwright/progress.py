"""What a run by a model tells whoever watches it, while it happens. Values only, gone when read; the journal is the truth.

Flows in: nothing; these are types. Flows out: one closed set of them, for a terminal or any other view. Decided here:
what can be seen of a run from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cellwright.model.base import Delta, Usage
from cellwright_kernel.wire import Cell, Event, Language


@dataclass(frozen=True)
class RunStarted:
    """The sandbox is usable; the first request is about to be sent."""

    run_id: str
    run_dir: Path
    model: str


@dataclass(frozen=True)
class TurnStarted:
    """A request is about to be sent."""

    number: int
    of: int
    """Number of the last turn that the budget holds."""
    sums_up: bool = False
    """Whether it asks for a summary only: of the run, or in place of its history."""


@dataclass(frozen=True)
class Arriving:
    """A piece of the response has arrived."""

    delta: Delta


@dataclass(frozen=True)
class AskedAgain:
    """There was no answer yet: the same is asked again, or another model."""

    reason: str


@dataclass(frozen=True)
class TurnArrived:
    """The response is whole; its calls are checked and executed next."""

    number: int
    usage: Usage
    """Of this response."""
    total: Usage
    """Of the run so far."""
    cost: float | None = None
    """What that comes to, in dollars; absent: the model's price is not known."""


@dataclass(frozen=True)
class Told:
    """The model is told something with the next request, besides the answers to its calls."""

    text: str


@dataclass(frozen=True)
class Cautioned:
    """Something was said about the run that whoever watches should know; the model is not told."""

    text: str


@dataclass(frozen=True)
class Asked:
    """The model asked the user, without a cell."""

    question: str
    answer: str
    """What it was told; where there is no answer, why."""


@dataclass(frozen=True)
class CallRejected:
    """A call was answered without being executed."""

    reason: str


@dataclass(frozen=True)
class CellStarted:
    """A call is being executed."""

    language: Language
    code: str


@dataclass(frozen=True)
class CellWrote:
    """An event of the running cell."""

    event: Event


@dataclass(frozen=True)
class CellEnded:
    """The cell is closed."""

    cell: Cell


Progress: TypeAlias = (
    RunStarted
    | TurnStarted
    | Arriving
    | AskedAgain
    | TurnArrived
    | Told
    | Cautioned
    | Asked
    | CallRejected
    | CellStarted
    | CellWrote
    | CellEnded
)

OnProgress = Callable[[Progress], None]
"""Called in the run's event loop; it must not block."""
