"""What is heard of a response before it is there: for the journal, and for whoever watches.

Flows in: a delta, a retry, a change of what is asked. Flows out: the record of it, where there is one, and what is
told. Decided here: that pieces are for live views only, and that the journal has each request as it was really made,
with the model that it was made to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from pydantic import JsonValue

from cellwright.estimate import patches_of
from cellwright.model.base import AskedOtherwise, Delta, Heard, Item, Request, Retried
from cellwright.progress import Arriving, AskedAgain, Progress
from cellwright.record.records import ModelRequest, Note, Purpose, Record
from cellwright.record.stored import Digest, digest_of

RETRY: Final = "retry"
"""Topic of a note on a request that is made again."""


class RequestRecords:
    """Makes the record of each request of a run; the digest of an item is made once, for as long as the item is sent."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Item, Digest]] = {}
        """By identity, which is an item's own for as long as it is kept here."""

    def of(
        self,
        turn: int,
        model: str,
        parameters: dict[str, JsonValue],
        request: Request,
        purpose: Purpose | None = None,
    ) -> ModelRequest:
        """Return the record of a request that is about to be made."""
        return ModelRequest(
            turn=turn,
            model=model,
            parameters=parameters,
            input=self._digests(request.history),
            image_patches=patches_of(request.history),
            purpose=purpose,
        )

    def _digests(self, items: tuple[Item, ...]) -> tuple[Digest, ...]:
        """Return one for each item, in order; those of items that are not among these are forgotten."""
        self._made = {id(item): self._made.get(id(item)) or (item, digest_of(item)) for item in items}
        return tuple(self._made[id(item)][1] for item in items)


def heard_as(
    heard: Heard, asked: Callable[[str, dict[str, JsonValue]], ModelRequest]
) -> tuple[tuple[Record, ...], Progress]:
    """Return the records of what was heard, and what is told of it.

    Args:
        heard: What was heard.
        asked: Makes the record of the request, where another model is asked, or with other parameters.
    """
    match heard:
        case Delta():
            return (), Arriving(heard)
        case Retried():
            return (Note(topic=RETRY, text=heard.reason),), AskedAgain(heard.reason)
        case AskedOtherwise():
            request = asked(heard.model, dict(heard.parameters))
            return (Note(topic=RETRY, text=heard.reason), request), AskedAgain(heard.reason)
        case _:
            assert_never(heard)
