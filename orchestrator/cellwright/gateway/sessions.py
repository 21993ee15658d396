"""Sessions, cells, the screen and files under `/v1/sessions`.

Flows in: requests of whoever holds the token. Flows out: sessions and finished cells as JSON, or a cell's events as
NDJSON with `Accept: application/x-ndjson`. Decided here: that no request can name a path of this machine.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from cellwright.errors import FileTooLarge, SessionDiffers
from cellwright.gateway.bodies import bounded_body
from cellwright.gateway.cell_stream import NDJSON, CellStream
from cellwright.gateway.described import FILES, OPENING, READING, SESSION, Responses
from cellwright.gateway.execute import SESSION_ID, check_session_id
from cellwright.gateway.waiter import cell_answer, waiting
from cellwright.pool import Pool
from cellwright.record.reader import read_run
from cellwright.sandbox.base import Environment, Params, SandboxInfo
from cellwright.sandbox.door import FILE_BYTES
from cellwright.session import Session
from cellwright_kernel.wire import Cell, FileInfo, Language

_FILE_TOO_LARGE: Final = (
    f"The file has more than {FILE_BYTES >> 20} MiB, which is the most that goes into a sandbox at once. Nothing was "
    "written. Send it in parts."
)

_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
_BYTES_IN: Final = {"requestBody": {"required": False, "content": {"application/octet-stream": _BYTES}}}


def _returns(media_type: str, schema: dict[str, Any] = _BYTES) -> Responses:
    return {200: {"content": {media_type: schema}}}


router = APIRouter(prefix="/v1/sessions")


class SessionRequest(BaseModel):
    """What a new session may ask for; what is absent comes from the service's own Spec."""

    model_config = ConfigDict(extra="forbid")

    session_id: str | None = Field(default=None, json_schema_extra={"pattern": f"^{SESSION_ID.pattern}$"})
    """As for `POST /execute`; absent: one is made up."""
    width: int | None = Field(default=None, ge=640, le=3840)
    """Pixels of the desktop."""
    height: int | None = Field(default=None, ge=480, le=2160)
    browser: bool | None = None
    """Whether Chromium is there."""
    allow: tuple[str, ...] | None = None
    env: Environment | None = None
    params: Params | None = None
    """Parameters of its run, which cells find as `params`; the run keeps the values."""
    cell_deadline_s: float | None = Field(default=None, gt=0, le=3600)
    deadline_limit_s: float | None = Field(default=None, gt=0, le=86400)
    """Most seconds that a cell may ask for."""


class SessionView(BaseModel):
    """A session as the gateway shows it."""

    session_id: str
    run_id: str
    opened_at: str
    """Moment in UTC, ISO 8601 with milliseconds and `Z`."""
    cells: int
    """Cells begun so far."""
    executing: int | None
    """Number of the running cell; null when idle."""
    idle_s: float
    sandbox: SandboxInfo
    secrets: tuple[str, ...] = ()
    """Names of the secrets that its cells can use."""


class CellRequest(BaseModel):
    """One cell to execute."""

    model_config = ConfigDict(extra="forbid")

    code: str
    language: Language = "python"
    deadline_s: float | None = Field(default=None, gt=0)
    """Seconds until it is interrupted, within the session's limit; absent: what its first line or the Spec says."""
    wait_s: float | None = Field(default=None, ge=0)
    """Seconds after which it is answered as it stands, with status `running`; absent, or as a stream: not before its end."""


def _pool(request: Request) -> Pool:
    pool: Pool = request.app.state.pool
    return pool


def _session(request: Request, session_id: str) -> Session:
    return _pool(request).existing(session_id)


APool = Annotated[Pool, Depends(_pool)]
ASession = Annotated[Session, Depends(_session)]


@router.post(
    "", status_code=201, responses=OPENING | {200: {"model": SessionView, "description": "It was open already."}}
)
async def open_session(response: Response, pool: APool, asked: SessionRequest | None = None) -> SessionView:
    """Open a session; one that is open under this id is returned as it is, with 200, unless something else is asked for."""
    asked = asked or SessionRequest()
    changes = asked.model_dump(exclude={"session_id"}, exclude_none=True)
    spec = pool.spec.model_validate({**pool.spec.model_dump(), **changes})
    if asked.session_id is not None:
        check_session_id(asked.session_id)
    session_id = asked.session_id or uuid.uuid4().hex
    was_open = pool.has(session_id)
    session = await pool.session(session_id, driver="gateway", spec=spec)
    if others := [name for name in changes if getattr(session.spec, name) != getattr(spec, name)]:
        raise SessionDiffers(
            f"Session {session_id!r} is open, and has another {' and another '.join(others)} than was asked for. Nothing was "
            "changed. Ask for what it has, or for nothing; close it first; or open one with another id."
        )
    response.status_code = 200 if was_open else 201
    return _view(session)


@router.get("")
async def list_sessions(pool: APool) -> list[SessionView]:
    """List the open sessions."""
    return [_view(session) for session in pool.sessions()]


@router.get("/{session_id}", responses=SESSION)
async def show_session(session: ASession) -> SessionView:
    """Show one session."""
    return _view(session)


@router.delete("/{session_id}", status_code=204, responses=SESSION)
async def close_session(session_id: str, pool: APool) -> None:
    """Close a session: its sandbox ends, its run stays."""
    await pool.close(session_id)


@router.post("/{session_id}/cells", response_model=Cell, responses=SESSION | _returns(NDJSON, {}))
async def execute_cell(
    request: Request, session: ASession, asked: CellRequest, accept: Annotated[str, Header()] = ""
) -> Any:  # noqa: ANN401 - a cell or a stream of its events
    """Execute a cell; the finished cell as JSON, or its events as they come. A client that leaves does not end it.

    With `wait_s` it may be answered as `running`; its number is what to ask for it by.
    """
    if NDJSON not in accept:
        ongoing = session.begin(asked.code, language=asked.language, deadline_s=asked.deadline_s)
        return await cell_answer(request, ongoing, asked.wait_s)
    stream = CellStream(session, asked.code, asked.language, asked.deadline_s)
    cells: asyncio.TaskGroup = request.app.state.cells
    cells.create_task(stream.run())
    with waiting(request) as waiter:
        await waiter.waits_for(stream.begun())
    return stream.response()


@router.get("/{session_id}/cells/{number}", response_model=Cell, responses=SESSION)
async def show_cell(request: Request, session: ASession, number: int, wait_s: Annotated[float, Query(ge=0)] = 0) -> Any:  # noqa: ANN401 - a cell, or the answer that says when it was told
    """Show a cell, from the run's journal; one that is running as it stands after so many seconds, or closed."""
    left = session.left
    if left is not None and left.cell.number == number:
        return await cell_answer(request, left, wait_s)
    return await asyncio.to_thread(lambda: read_run(session.run_dir).cell(number))


@router.post("/{session_id}/interrupt", status_code=204, responses=SESSION)
async def interrupt(session: ASession) -> None:
    """Interrupt the running cell."""
    await session.interrupt()


@router.post("/{session_id}/restart", status_code=204, responses=SESSION)
async def restart(session: ASession, language: Language = "python") -> None:
    """Replace a kernel: its variables are gone, files and desktop stay."""
    await session.restart(language)


@router.get("/{session_id}/screen.png", response_class=Response, responses=SESSION | _returns("image/png"))
async def screen(session: ASession) -> Response:
    """Return the desktop as it is now."""
    return Response(await session.screenshot(), media_type="image/png", headers={"Cache-Control": "no-store"})


@router.get("/{session_id}/files", responses=FILES)
async def list_files(session: ASession, path: str = "") -> list[FileInfo]:
    """List the files below a folder of the sandbox's home."""
    return await session.list_files(path)


@router.get(
    "/{session_id}/files/{path:path}", response_class=Response, responses=READING | _returns("application/octet-stream")
)
async def read_file(session: ASession, path: str, *, with_secrets: bool = False) -> Response:
    """Return a file of the sandbox's home, as bytes to save; with the value of a secret in it only where that is asked for."""
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    data = await session.read_file(path, with_secrets=with_secrets)
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.put("/{session_id}/files/{path:path}", status_code=204, responses=FILES, openapi_extra=_BYTES_IN)
async def write_file(session: ASession, path: str, request: Request) -> None:
    """Write a file into the sandbox's home."""
    await session.write_file(path, await bounded_body(request, FILE_BYTES, FileTooLarge(_FILE_TOO_LARGE)))


@router.delete("/{session_id}/files/{path:path}", status_code=204, responses=FILES)
async def delete_file(session: ASession, path: str) -> None:
    """Remove a file from the sandbox's home."""
    await session.delete_file(path)


def _view(session: Session) -> SessionView:
    return SessionView(
        session_id=session.id,
        run_id=session.run_id,
        opened_at=session.journal.info.created_at,
        cells=session.journal.cells,
        executing=session.executing,
        idle_s=round(session.idle_s, 3),
        sandbox=session.info,
        secrets=tuple(secret.name for secret in session.spec.secrets),
    )
