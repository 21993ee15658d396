"""What a server has of a conversation, so that only what is new need be sent.

Flows in: the history of each request, and of each response its id and items. Flows out: the response to go on from, and
how many items the server has. Decided here: that a history goes on from a response exactly if it begins with all that
was sent for it and all that it said, item for item; any other is sent whole, and chaining begins anew with it. The
items are held by reference, as the history holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellwright.model.base import Item, ResponseItem


class Chain:
    """One conversation at one server."""

    def __init__(self) -> None:
        self._response_id: str | None = None
        self._has: tuple[Item, ...] = ()

    def __repr__(self) -> str:
        return f"<Chain: {len(self._has)} items at the server, {'from' if self._response_id else 'no'} response>"

    def start(self, history: Sequence[Item]) -> tuple[str | None, int]:
        """Return the response that a history goes on from, and how many of its items the server has; None and 0: all must be sent."""
        count = len(self._has)
        if self._response_id is None or len(history) < count:
            return None, 0
        if any(one is not other and one != other for one, other in zip(self._has, history, strict=False)):
            return None, 0
        return self._response_id, count

    def arrived(self, response_id: str, history: Sequence[Item], items: Sequence[ResponseItem]) -> None:
        """Keep what the server has now."""
        self._response_id = response_id
        self._has = (*history, *(item.raw for item in items))

    def forget(self) -> None:
        """Begin anew: the server has nothing."""
        self._response_id, self._has = None, ()
