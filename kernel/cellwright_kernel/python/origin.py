"""Which cell an output belongs to.

Flows in: each request to execute. Flows out: for any thread or background task, the cell that started it. Decided
here: the origin travels in a context variable, so that a background task keeps the one it was made under; a new thread
starts with an empty context, so a thread takes the origin of whoever started it.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

ROOM_BYTES = 64 * 1024 * 1024
"""What one cell may send; what comes after is cut here, at the source."""

LATE_BYTES = 4 * 1024 * 1024
"""What texts of one cell may take after it has ended: whoever forgot what still writes reads no more of it."""

EXTRAS = 64
"""Results, shown texts and images that it may still send after that, each of at most 64 KiB."""

_ATTRIBUTE = "_cellwright_origin"


@dataclass(slots=True, eq=False)
class Origin:
    """One cell, as the sender of outputs. Lives as long as anything that it started."""

    number: int
    parent: dict[str, Any]
    """Header of its execute_request: the parent of every message of this cell."""
    room: int = ROOM_BYTES
    """Bytes that it may still send."""
    reserve: int = 0
    """Once it has ended: bytes that what it shows may take besides. A picture now and then is no flood."""
    extras: int = EXTRAS
    short: int = 0
    """Short messages that it has sent."""
    running: bool = True
    name: str = ""
    """What tracebacks call its code."""
    msg_id: str = field(init=False)

    def __post_init__(self) -> None:
        self.msg_id = str(self.parent.get("msg_id", ""))

    def end(self) -> None:
        """Note that the cell has ended; what it left running may still send."""
        if self.running:
            self.running = False
            self.reserve = max(0, self.room - LATE_BYTES)
            self.room -= self.reserve

    def take_for_shown(self, size: int) -> None:
        """Take bytes of what it may still send for something it shows."""
        of_reserve = min(size, self.reserve)
        self.reserve -= of_reserve
        self.room -= size - of_reserve


CURRENT: ContextVar[Origin] = ContextVar("cellwright_origin")

_latest: list[Origin] = []


def set_latest(origin: Origin) -> None:
    """Name the cell that owns what nobody can be found for."""
    _latest[:] = [origin]


def current_origin() -> Origin | None:
    """The cell on whose behalf the caller runs; None before the first cell."""
    try:
        return CURRENT.get()
    except LookupError:
        found = getattr(threading.current_thread(), _ATTRIBUTE, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
        return _latest[0] if _latest else None


def follow_threads() -> None:
    """From now on a started thread remembers the cell that started it."""
    start = threading.Thread.start

    def start_with_origin(thread: threading.Thread) -> None:
        setattr(thread, _ATTRIBUTE, current_origin())
        start(thread)

    threading.Thread.start = start_with_origin  # type: ignore[method-assign, assignment]
