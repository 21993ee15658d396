"""What the gateway's description (`/openapi.json`) says of every route alike: who may ask, and how a request is refused.

Flows in: the description as the framework makes it from the routes. Flows out: the same, with what it does not know: that
the guard and the limits stand before the routes, and that every refusal is one kind of JSON. Decided here: which statuses a
route may answer with. `SESSION` is for routes of one session, `OPENING` for those that may start a sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel

from cellwright import errors
from cellwright.errors import CellwrightError

Responses = dict[int | str, dict[str, Any]]


class Refusal(BaseModel):
    """The body of every answer that is no success."""

    error: str
    """What happened, what is left and what to do, in sentences."""
    kind: str
    """Name of the error."""


def _refusals(*kinds: type[CellwrightError]) -> Responses:
    said: dict[int, list[str]] = {}
    for kind in kinds:
        said.setdefault(kind.http_status, []).append(kind.sentence)
    return {status: {"model": Refusal, "description": " ".join(sentences)} for status, sentences in said.items()}


SESSION: Final = _refusals(
    errors.SessionNotFound,
    errors.SessionBusy,
    errors.SessionClosed,
    errors.SandboxLost,
    errors.EnvironmentMissing,
    errors.DiskFull,
    errors.RunFull,
)
FILES: Final = SESSION | _refusals(errors.SessionNotFound, errors.FileMissing)
READING: Final = FILES | _refusals(errors.SessionBusy, errors.HoldsSecret)
OPENING: Final = _refusals(
    errors.SessionBusy,
    errors.SessionDiffers,
    errors.SessionClosed,
    errors.AtCapacity,
    errors.SandboxLost,
    errors.SandboxUnavailable,
    errors.DiskFull,
    errors.RunFull,
)
WAITING: Final = SESSION | _refusals(errors.SessionNotFound, errors.NothingWaits)
KERNELS: Final = SESSION | _refusals(errors.SessionClosed, errors.KernelEnded)

_EVERYWHERE: Final = _refusals(
    errors.BadRequest,
    errors.TokenRefused,
    errors.OriginRefused,
    errors.CodeTooLarge,
    errors.FileTooLarge,
    errors.TooManyRequests,
)
_HEALTH: Final = (errors.OriginRefused.http_status, errors.TooManyRequests.http_status)
_WAIT: Final = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string", "pattern": "^[0-9]+$"}}}
_SCHEME: Final = "token"


def describe(app: FastAPI) -> None:
    """Have an application describe itself in full."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(made())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _completed(description: dict[str, Any]) -> dict[str, Any]:
    parts = description.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # the framework's own, which is never sent
        schemas.pop(name, None)
    schemas["Refusal"] = Refusal.model_json_schema()
    parts["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            _complete(operation, is_open=path == "/health")
    return description


def _complete(operation: dict[str, Any], *, is_open: bool) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    everywhere = {status: _EVERYWHERE[status] for status in (_HEALTH if is_open else _EVERYWHERE)}
    for status, response in everywhere.items():
        responses.setdefault(str(status), _as_described(response))
    too_many = responses[str(errors.TooManyRequests.http_status)]
    too_many["headers"] = _WAIT
    if not is_open:
        operation["security"] = [{_SCHEME: []}]


def _as_described(response: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    return {"description": response["description"] or HTTPStatus.BAD_REQUEST.phrase, "content": content}
