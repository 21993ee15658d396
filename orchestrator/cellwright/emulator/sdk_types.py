"""Whether the body of a request is one that the `openai` SDK's own types allow, and if not, at which field.

Flows in: the JSON of a body. Flows out: nothing, or a `Mismatch` that names the field as the API does (`input[2].output[0].detail`).
Decided here: that the SDK's TypedDicts are taken at their word: what they do not list is refused, and what they call an iterable is
an array, whose every element is looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from openai.types.responses import response_create_params as params
from pydantic import JsonValue, TypeAdapter
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator, ValidationError

_SHOWN_CHARS: Final = 80
_SAID_CHARS: Final = 200


@dataclass(frozen=True)
class Mismatch:
    """Where a body is none that the types allow."""

    field: str
    """As the API writes it: `input[2].output[0].detail`; empty: the body itself."""
    why: str
    """Half a sentence, without a full stop."""
    is_unknown: bool = False
    """Whether the field is one that the types do not list."""
    is_missing: bool = False


def mismatch(body: JsonValue) -> Mismatch | None:
    """Return the first field of a request's body that the SDK's types do not allow; None when they allow all of it."""
    streams = isinstance(body, dict) and body.get("stream") is True
    try:
        _validator(streams).validate_python(body, strict=True)
    except ValidationError as error:
        return _told(error.errors(include_url=False, include_context=True), body)
    return None


class NotTheSdks(AssertionError):
    """A request's body is none that the SDK's types allow."""


def check(body: Mapping[str, JsonValue]) -> None:
    """Hold a body against the SDK's types; for tests.

    Raises:
        NotTheSdks: It does not fit; the message names the field.
    """
    found = mismatch(dict(body))
    if found is not None:
        raise NotTheSdks(f"{found.field or 'The body'}: {found.why}.")


@functools.cache
def _validator(streams: bool) -> SchemaValidator:
    kind = params.ResponseCreateParamsStreaming if streams else params.ResponseCreateParamsNonStreaming
    schema = TypeAdapter[Any](kind).core_schema
    return SchemaValidator(cast("CoreSchema", _strict(schema)))


def _strict(schema: object) -> object:
    """Return a schema whose dicts allow nothing more, and whose iterables are arrays and looked into now."""
    if isinstance(schema, dict):
        changed = {name: _strict(part) for name, part in schema.items()}
        match changed.get("type"):
            case "typed-dict":
                changed["extra_behavior"] = "forbid"
                changed.pop("config", None)
            case "generator":
                changed["type"] = "list"
            case _:
                pass
        return changed
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    return schema


def _told(errors: Sequence[ErrorDetails], body: JsonValue) -> Mismatch:
    error, unknown = _closest(errors, 0, body)
    field = _field(error["loc"], body)
    if unknown is not None:
        return Mismatch(f"{field}.type" if field else "type", f"there is no type {_shown(unknown)} here")
    match error["type"]:
        case "missing":
            return Mismatch(field, "it is missing", is_missing=True)
        case "extra_forbidden":
            return Mismatch(field, "there is no such field", is_unknown=True)
        case _:
            said = error["msg"] if len(error["msg"]) <= _SAID_CHARS else f"{error['msg'][:_SAID_CHARS]}..."
            return Mismatch(field, f"{said[0].lower()}{said[1:]}, and it is {_shown(error['input'])}")


def _closest(errors: Sequence[ErrorDetails], depth: int, at: object) -> tuple[ErrorDetails, object]:
    """Where several types are possible, go on with the likeliest: one of the right `type`, that has least to say against it.

    Returns:
        What it says; and the value of `type`, if that is what no type has.
    """
    groups: dict[int | str, list[ErrorDetails]] = {}
    for error in errors:
        if len(error["loc"]) <= depth:
            return error, None
        groups.setdefault(error["loc"][depth], []).append(error)
    step, chosen = next(iter(groups.items()))
    if _is_step(chosen[0], depth, at):
        return _closest(chosen, depth + 1, _below(at, step))
    likely = {name: found for name, found in groups.items() if not _is_of_other_type(found, depth)}
    if not likely or (len(likely) < len(groups) and all(_is_of_other_kind(found, depth) for found in likely.values())):
        return {**chosen[0], "loc": chosen[0]["loc"][:depth]}, at.get("type") if isinstance(at, Mapping) else None
    rank = {name: (_is_of_other_kind(found, depth), _width(found, depth)) for name, found in likely.items()}
    return _closest(likely[min(rank, key=lambda name: rank[name])], depth + 1, at)


def _is_step(error: ErrorDetails, depth: int, at: object) -> bool:
    """Whether an element of an error's path leads into the body; else it names one of several possible types."""
    step = error["loc"][depth]
    if isinstance(step, int):
        return isinstance(at, list)
    if not isinstance(at, Mapping):
        return False
    is_last = depth == len(error["loc"]) - 1
    return step in at or (is_last and error["type"] == "missing")


def _is_of_other_type(errors: Sequence[ErrorDetails], depth: int) -> bool:
    return any(
        error["loc"][depth + 1 :] == ("type",) and error["type"] in ("literal_error", "missing") for error in errors
    )


def _is_of_other_kind(errors: Sequence[ErrorDetails], depth: int) -> bool:
    """Whether the value is not even a text, an array, an object as this type would have it."""
    return any(len(error["loc"]) == depth + 1 for error in errors)


def _width(errors: Sequence[ErrorDetails], depth: int) -> int:
    return len({error["loc"][: depth + 2] for error in errors})


def _below(at: object, step: int | str) -> object:
    if isinstance(at, list) and isinstance(step, int):
        return at[step] if step < len(at) else None
    return at.get(step) if isinstance(at, Mapping) else None


def _field(path: Sequence[int | str], body: JsonValue) -> str:
    """Return a path as the API writes it; names of types that stand in it are left out."""
    at: object = body
    field = ""
    for number, step in enumerate(path):
        if isinstance(at, list) and isinstance(step, int):
            field += f"[{step}]"
        elif isinstance(at, Mapping) and isinstance(step, str) and (step in at or number == len(path) - 1):
            field += f".{step}" if field else step
        else:
            continue
        at = _below(at, step)
    return field


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
