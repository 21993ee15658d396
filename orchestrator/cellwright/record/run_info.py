"""What frames a run on disk: `run.json`, which never changes, and the seal of a run that has ended.

Flows in: who opened the run, and from what its sandbox is made. Flows out: typed, versioned, frozen values. Decided here: the
fields; the ways in which a run can end; and how a moment is written.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, JsonValue

from cellwright.record.stored import Recorded
from cellwright.sandbox.base import Spec

Driver = Literal["loop", "guide", "library", "cli", "gateway", "replay"]
"""Who sends the cells."""

RunEnd = Literal["done", "failed", "budget", "stuck", "cancelled"]
"""How a run ended."""

RunStatus = Literal["done", "failed", "budget", "stuck", "cancelled", "running", "open"]
"""`running` while somebody writes it; `open` when a crash left it without an end."""


def now() -> str:
    """Return this moment in UTC, ISO 8601 with milliseconds and `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RunInfo(Recorded):
    """What the run was; `run.json`."""

    v: Literal[1] = 1
    run_id: str
    """Name of the run's folder."""
    created_at: str = Field(default_factory=now)
    """Moment in UTC, ISO 8601 with milliseconds and `Z`."""
    cellwright: str
    """Version of Cellwright that wrote it."""
    driver: Driver
    session_id: str
    """The first session of the run."""
    spec: dict[str, JsonValue]
    """What the sandbox was made from, by `recorded_spec`."""
    task: str | None = None
    """The user's words; absent when no model was given a task."""
    model: str | None = None
    """Name of the model; absent when none drove."""
    replay_of: str | None = None
    """Id of the run whose cells are done again; absent when this is no replay."""
    fork_of: str | None = None
    """Id of the run whose first cells are this one's, too; absent when this is no fork."""
    at: int | None = None
    """How many they are; absent when this is no fork."""


class Head(Recorded):
    """The seal of a closed run; `head.json`."""

    v: Literal[1] = 1
    count: int
    """Number of the last record."""
    last: str
    """Its hash."""
    run: str
    """Hash of the bytes of `run.json`."""
    closed_at: str
    """Moment in UTC, ISO 8601 with milliseconds and `Z`."""


def recorded_spec(spec: Spec) -> dict[str, JsonValue]:
    """Return the Spec as the run keeps it: JSON, and of `env` the names only, because a value may be a secret."""
    kept: dict[str, JsonValue] = spec.model_dump(mode="json")
    kept["env"] = [*sorted(spec.env)]
    return kept
