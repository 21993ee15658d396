"""What cells that are executed again asked for and the record has no answer to.

Flows in: the tape's sentences. Flows out: those of one cell, in bounded length. Decided here: how many are named, each once, and
how much of an address is; the rest is only counted, since code decides how often it asks, and for what.
"""

from __future__ import annotations

from typing import Final

_NAMED: Final = 3
"""Most sentences of one cell, unless more are wanted."""
_ADDRESS_CHARS: Final = 200


class Missed:
    """The sentences since it was asked last; a tape tells them to it.

    Args:
        most: How many are named.
    """

    def __init__(self, most: int = _NAMED) -> None:
        self._most = most
        self._named: dict[str, None] = {}
        self._more = 0

    def __call__(self, sentence: str, *, matters: bool) -> None:  # noqa: ARG002 - the cell's own outcome says whether it does
        """Be told."""
        sentence = with_short_addresses(sentence)
        if sentence in self._named:
            return
        if len(self._named) < self._most:
            self._named[sentence] = None
        else:
            self._more += 1

    def taken(self) -> tuple[str, ...]:
        """Return what came since this was asked last."""
        named, self._named = self._named, {}  # first: a thread may tell more meanwhile
        more, self._more = self._more, 0
        return (*named, *((f"{more} more requests had no answer in the record either.",) if more else ()))


def with_short_addresses(sentence: str) -> str:
    """Return a sentence with its addresses, which have no spaces in them, cut at 200 characters."""
    return " ".join(
        word if len(word) <= _ADDRESS_CHARS else f"{word[: _ADDRESS_CHARS - 3]}..." for word in sentence.split(" ")
    )
