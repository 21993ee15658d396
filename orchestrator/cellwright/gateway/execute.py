"""The guide endpoint: `POST /execute` and `GET /health`, exactly as the public guide's clients call them.

Flows in: `{"session_id", "language", "code"}`. Flows out: `{"output": [...]}`, never empty. Decided here: the time line.
The clients give up after 30 s, so the clock starts when the request arrives, start-up included, and an answer leaves by
27 s, or by 28 s where the kernel host itself does not answer any more. Code that asks for more time in its first line is answered
at 24 s as still running; how the next calls get on with it, and with one whose waiter hung up, is `left_running.py`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any, Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from cellwright.answer import InputItem, said
from cellwright.errors import BadRequest, CodeTooLarge
from cellwright.gateway.bodies import TOO_LARGE, bounded_body
from cellwright.gateway.described import OPENING
from cellwright.gateway.left_running import INTERRUPT_S, respond
from cellwright.gateway.waiter import WaitersAnswer, waiting
from cellwright.pool import Pool
from cellwright_kernel.wire import CODE_BYTES, POST_BYTES

SESSION_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class _Plain(APIRoute):
    """A route that is called with the request and returns the response, with nothing of FastAPI's between (0.1 ms)."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers."""
        return self.endpoint


router = APIRouter(route_class=_Plain)


class ExecuteRequest(BaseModel):
    """The body of `POST /execute`."""

    model_config = ConfigDict(strict=True, use_attribute_docstrings=True)

    session_id: str = Field(json_schema_extra={"pattern": f"^{SESSION_ID.pattern}$"})
    """A UUID or up to 128 letters, digits, dots, hyphens and underscores. Opened if there is none of this id."""
    language: Literal["python", "javascript"]
    """Which kernel of the session executes it."""
    code: str
    """At most 65536 bytes of UTF-8."""


class _Said(BaseModel):
    type: Literal["input_text"]
    text: str


class _Shown(BaseModel):
    type: Literal["input_image"]
    image_url: str = Field(pattern="^data:image/")
    detail: Literal["original"]


class ExecuteAnswer(BaseModel):
    """What `POST /execute` answers; the items are `answer`'s."""

    output: list[_Said | _Shown] = Field(min_length=1)


class HealthAnswer(BaseModel):
    """What `GET /health` answers."""

    ready: Literal[True]
    language: Literal["python"]
    session_bound: Literal[False]


_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ExecuteRequest.model_json_schema()}}}
}
"""What the route reads, for those who read its description: it takes the body itself, to refuse each fault by its name."""


@router.post("/execute", openapi_extra=_BODY, responses=OPENING | {200: {"model": ExecuteAnswer}})
async def execute(request: Request) -> Response:
    """Execute code in the session of this id, which is opened if there is none."""
    arrived = time.monotonic()
    asked = _read(await bounded_body(request, POST_BYTES, CodeTooLarge(TOO_LARGE)))
    pool: Pool = request.app.state.pool
    try:
        async with asyncio.timeout(INTERRUPT_S + 2 - (time.monotonic() - arrived)):
            session = await pool.session(asked.session_id, driver="guide")
    except TimeoutError:
        return _output("The sandbox is still starting. Nothing ran. Make the same call again.")
    with ExitStack() as held:
        waiter = held.enter_context(waiting(request))
        reply = await waiter.waits_for(respond(session, asked.code, asked.language, arrived, held))
        return WaitersAnswer(_content(reply.items), waiter, held.pop_all(), reply.was_sent)


@router.get("/health", responses={200: {"model": HealthAnswer}})
async def health(_: Request) -> Response:
    """Say that the service is ready; needs no token and tells nothing about sessions.

    It is the answering that says so: requests wait until the pool is open, and nothing is accepted once it closes.
    """
    return JSONResponse({"ready": True, "language": "python", "session_bound": False})


def _output(sentence: str) -> Response:
    return Response(_content([said(sentence)]), media_type="application/json")


def _content(output: Sequence[InputItem]) -> bytes:
    # a screenshot is 430 kB of base64: this writes it in 0.1 ms, Python's own encoder in 4
    return to_json({"output": output})


def _read(body: bytes) -> ExecuteRequest:
    try:
        asked = ExecuteRequest.model_validate(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The request could not be read: {_why(error)}. Nothing ran.") from error
    check_session_id(asked.session_id)
    size = len(asked.code.encode("utf-8", "surrogatepass"))
    if size > CODE_BYTES:
        raise CodeTooLarge(f"The code has {size} bytes, and a cell may have {CODE_BYTES}. Nothing ran.")
    return asked


def check_session_id(session_id: str) -> None:
    """Refuse an id that could be more than a name.

    Raises:
        BadRequest: It is empty, too long, or has other characters than a name.
    """
    if not SESSION_ID.fullmatch(session_id):
        raise BadRequest(
            "The session_id must have 1 to 128 letters, digits, dots, hyphens or underscores, and begin with a letter "
            "or digit. Nothing ran."
        )


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        return f"{where}: {first['msg']}"
    return "it is not JSON"
