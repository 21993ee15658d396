"""What every record has.

Flows in: nothing. Flows out: the base of all records. Decided here: that each has a version and its moment.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cellwright.record.run_info import now
from cellwright.record.stored import Recorded


class Noted(Recorded):
    """A record."""

    v: Literal[1] = 1
    at: str = Field(default_factory=now)
    """When it was noted, outside: UTC, ISO 8601 with milliseconds and `Z`."""
