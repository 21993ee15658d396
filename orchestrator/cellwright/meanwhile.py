"""What is heard of a response before it is there: for the journal, and for whoever watches.

Flows in: a delta, a retry, a change of what is asked. Flows out: the record of it, where there is one, and what is
told. Decided here: that pieces are for live views only, and that the journal has each request as it was really made,
with the model that it was made to.
"""

from __future__ import annotations

from typing import Final, assert_never

from pydantic import JsonValue

from cellwright.estimate import patches_of
from cellwright.model.base import AskedOtherwise, Delta, Heard, Request, Retried
from cellwright.progress import Arriving, AskedAgain, Progress
from cellwright.record.records import ModelRequest, Note, Purpose, Record
from cellwright.record.stored import digest_of

RETRY: Final = "retry"
"""Topic of a note on a request that is made again."""


def request_record(
    turn: int, model: str, parameters: dict[str, JsonValue], request: Request, purpose: Purpose | None = None
) -> ModelRequest:
    """Return the record of a request that is about to be made."""
    return ModelRequest(
        turn=turn,
        model=model,
        parameters=parameters,
        input=tuple(digest_of(item) for item in request.history),
        image_patches=patches_of(request.history),
        purpose=purpose,
    )


def heard_as(
    heard: Heard, turn: int, request: Request, purpose: Purpose | None = None
) -> tuple[tuple[Record, ...], Progress]:
    """Return the records of what was heard, and what is told of it."""
    match heard:
        case Delta():
            return (), Arriving(heard)
        case Retried():
            return (Note(topic=RETRY, text=heard.reason),), AskedAgain(heard.reason)
        case AskedOtherwise():
            asked = request_record(turn, heard.model, dict(heard.parameters), request, purpose)
            return (Note(topic=RETRY, text=heard.reason), asked), AskedAgain(heard.reason)
        case _:
            assert_never(heard)
