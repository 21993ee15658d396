"""What is about to leave a sandbox and may change something outside.

Flows in: a request's head. Flows out: an `Effect`, or nothing where HTTP says that it only reads. Decided here: that what cannot be read is an
effect: a tunnel, an upgrade; and so is a reading request that brings a body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import h11

from cellwright.egress.heads import Target, is_upgrade, place_of
from cellwright.egress.traffic import READING

_SHOWN_CHARS: Final = 300
_BODY: Final = frozenset({b"content-length", b"transfer-encoding"})


@dataclass(frozen=True)
class Effect:
    """A request that may change something."""

    method: str
    """`CONNECT` for a tunnel."""
    place: str
    """Host and port, as a URL has them."""
    target: str
    """Path and query, as far as they are shown; empty for a tunnel."""
    is_opaque: bool
    """Whether nothing is seen of what follows in its connection."""

    def __str__(self) -> str:
        what = " (nothing of what follows can be seen)" if self.is_opaque else ""
        return f"{self.method} {self.place}{self.target}{what}"


class Held(Protocol):
    """The connection on which an effect waits."""

    def has_hung_up(self) -> bool:
        """Return whether whoever made it says nothing more."""

    def end_unsaid(self) -> None:
        """End it, unless it was a request's alone and that has wholly come."""


class EffectGate(Protocol):
    """Decides whether an effect may leave."""

    async def __call__(self, effect: Effect, held: Held, *, taped: bool) -> str | None:
        """Return why it may not, as a sentence; None: it may.

        Args:
            effect: It.
            held: Its connection.
            taped: Whether a record answers in place of the world.
        """


def effect_of(request: h11.Request, target: Target) -> Effect | None:
    """Return what a request does outside; None where it only reads."""
    is_opaque = target.method == "CONNECT" or is_upgrade(request)
    has_body = any(name in _BODY for name, _ in request.headers)
    if target.method in READING and not is_opaque and not has_body:
        return None
    path = target.path.decode("ascii", "replace")
    shown = path[:_SHOWN_CHARS]
    if len(path) > _SHOWN_CHARS:
        shown += f" ... and {len(path) - _SHOWN_CHARS} characters more"
    return Effect(target.method, place_of(target.host, target.port), shown, is_opaque)
