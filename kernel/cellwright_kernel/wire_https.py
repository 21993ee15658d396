"""What crosses the line about the browser's HTTPS: values only, as in `wire.py`.

Flows in: nothing; these are types. Flows out: the same types on both sides of the boundary, as JSON. Decided here: what the
kernel host tells of a request and its response, what it asks and is answered while a record answers, and how large each part
may be. All of it is the inside's word; the outside checks every value, and by its own rules whether it may be so.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, TypeAdapter, model_validator

from cellwright_kernel.wire_value import Count, Value

BODY_BYTES: Final = 8 * 1024**2
"""Most of a body that is told; of a larger one only its size is."""
HTTPS_HEAD_CHARS: Final = 64 * 1024
"""Most of all headers of a response together, as in clear; 1000 of them are in the journal for each cell."""
HTTPS_LINE_BYTES: Final = 24 * 1024**2
"""Largest message: two whole bodies as base64, and room around them."""
HTTPS_CELL_BYTES: Final = 384 * 1024**2
"""Most that may be told from the beginning of one cell to that of the next."""
HTTPS_MESSAGE_BYTES: Final = 4096
"""What each message counts for in that, besides its own length: to read 60,000 of them takes two seconds."""
HTTPS_ANSWER_BYTES: Final = 13 * 1024**2
"""Largest answer: a whole body as base64, and its head."""

_Short = Annotated[str, Field(max_length=1000)]


class HttpsBody(Value):
    """What a request or a response carried."""

    size_bytes: Count
    """As far as it is known."""
    data: Annotated[bytes, Field(max_length=BODY_BYTES)] | None = None
    """All of its bytes; absent where they are too many, or Chromium does not give them, as those of a download or a stream."""


class HttpsRequest(Value):
    """What is asked for."""

    method: Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$")]
    host: Annotated[str, Field(min_length=1, max_length=260)]
    port: Annotated[int, Field(ge=1, lt=2**16)]
    target: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=16 * 1024)]
    """Path and query."""


class _OfRequest(Value):
    request: HttpsRequest
    cell: Count | None = None
    """Number of the cell that ran when it went out; absent between cells."""


class HttpsBegan(Value):
    """The browser is looked at; the first message."""

    type: Literal["began"] = "began"


class HttpsSent(_OfRequest):
    """A request that may change something has gone out, or is about to."""

    type: Literal["sent"] = "sent"


class HttpsExchanged(_OfRequest):
    """A request that went out, and its response."""

    type: Literal["exchanged"] = "exchanged"
    request_body: HttpsBody
    status: Annotated[int, Field(ge=200, lt=1000)]
    reason: _Short = ""
    headers: Annotated[
        tuple[tuple[_Short, Annotated[str, Field(max_length=32 * 1024)]], ...], Field(max_length=200)
    ] = ()
    """Of the response, in order. The body is given as the page was: decompressed."""
    body: HttpsBody

    @model_validator(mode="after")
    def _head_is_bounded(self) -> Self:
        if sum(len(name) + len(value) for name, value in self.headers) > HTTPS_HEAD_CHARS:
            raise ValueError("the headers are too long")
        return self


class HttpsAsked(Value):
    """A request waits for its answer, which is sent to `POST /https/answers/NUMBER`."""

    type: Literal["asked"] = "asked"
    number: Count
    request: HttpsRequest
    body: HttpsBody
    is_icon: bool = False
    """Whether the browser asks by itself, for a page's icon."""
    is_beacon: bool = False
    """Whether nobody waits for the answer, and the page may have gone: Chromium may not have told of such a one."""


class HttpsMissed(Value):
    """So many exchanges were not told, since there was no room for them."""

    type: Literal["missed"] = "missed"
    exchanges: Count


class HttpsEnded(Value):
    """No more is told; the last message."""

    type: Literal["ended"] = "ended"


HttpsMessage = HttpsBegan | HttpsSent | HttpsExchanged | HttpsAsked | HttpsMissed | HttpsEnded

HTTPS_MESSAGE: TypeAdapter[HttpsMessage] = TypeAdapter(Annotated[HttpsMessage, Field(discriminator="type")])


class HttpsAnswer(Value):
    """What a request that waits is answered with."""

    status: int | None = None
    """Absent: nothing, it goes out to the world."""
    reason: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
