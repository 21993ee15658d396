"""What the loop asks of a session: where cells are executed, and where what is said is kept.

Flows in: nothing; these are types. Flows out: Protocols that `Session` satisfies. Decided here: how little the loop knows of one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from cellwright.ongoing import ModelCall
from cellwright.record import records
from cellwright.record.run_info import RunEnd
from cellwright.running import OnEvent
from cellwright.sandbox.base import Spec
from cellwright_kernel.wire import Cell, Language


class Recording(Protocol):
    """What the loop asks of a journal."""

    def append(self, record: records.Record) -> object:
        """Keep a record; on disk when it returns."""

    def would_hide(self, text: str) -> bool:
        """Whether a text holds the value of a secret."""


class Place(Protocol):
    """What the loop asks of a session."""

    @property
    def spec(self) -> Spec:
        """What its sandbox was made from."""

    @property
    def journal(self) -> Recording:
        """Where the run is recorded."""

    @property
    def run_dir(self) -> Path:
        """The run's folder."""

    async def execute(
        self,
        code: str,
        *,
        language: Language,
        deadline_s: float | None,
        on_event: OnEvent | None,
        call: ModelCall | None,
    ) -> Cell:
        """Execute one cell."""

    def conclude(self, status: RunEnd, *, reason: str | None = None, summary: str | None = None) -> None:
        """Say how the run ended."""
