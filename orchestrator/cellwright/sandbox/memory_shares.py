"""What of a sandbox's memory its browser may have, and what one process of a cell.

Flows in: the limits of a Spec. Flows out: bytes. Decided here: each of them leaves the same to all the others together, so
that whoever takes all it may ends itself and nobody else: code that gets no more keeps its variables, and code that is killed
does not.
"""

from __future__ import annotations

from typing import Final

from cellwright.sandbox.base import Limits

_OTHERS_BYTES: Final = 768 * 1024**2
"""Desktop, browser and the other kernel have 450 to 700 MiB, and two idle kernels 250 MiB."""
_LEAST_BYTES: Final = 704 * 1024**2
"""Playwright's driver could not start with less: Node reserves 512 MiB for code, and this counts what is reserved."""


def process_bytes(limits: Limits) -> int:
    """Return how much memory of its own a kernel's process, and each that it starts, may have."""
    return max(limits.memory_bytes - _OTHERS_BYTES, _LEAST_BYTES)


def browser_bytes(limits: Limits) -> int:
    """Return how much memory the browser may have where it is held apart; a page of thirty large canvases took 2 GiB."""
    return max(limits.memory_bytes - _OTHERS_BYTES, limits.memory_bytes // 2)
