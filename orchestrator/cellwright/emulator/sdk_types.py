"""Whether the body of a request is one that the SDK's own types allow: not only what a server happens to look at.

Flows in: a body. Flows out: nothing, or a `NotTheSdks` that names the places. Decided here: that nothing may be in it
which the types do not have, and that what they call an iterable is a list, as it is in JSON; pydantic would look at
neither by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import JsonValue, TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

_SHOWN: Final = 12


class NotTheSdks(AssertionError):
    """A request body is not one that the SDK's types allow."""


def check(body: Mapping[str, JsonValue]) -> None:
    """Hold a body against the SDK's types.

    Raises:
        NotTheSdks: It does not fit; the message names the places.
    """
    try:
        _validator(body.get("stream") is True).validate_python(dict(body))
    except ValidationError as error:
        raise NotTheSdks("\n".join(_places(error))) from None


def _places(error: ValidationError) -> list[str]:
    """Return what is wrong, without what is only not another kind of thing: an item may be of more than thirty."""
    errors = error.errors(include_url=False, include_input=False)
    others = [one["loc"][:-1] for one in errors if one["type"] == "literal_error" and one["loc"][-1] == "type"]
    near = [one for one in errors if not any(one["loc"][: len(other)] == other for other in others)]
    return [f"{_place(one['loc'])}: {one['msg']}" for one in near or errors][:_SHOWN]


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc if "[" not in str(part))


@cache
def _validator(streams: bool) -> SchemaValidator:
    kind: Any = ResponseCreateParamsStreaming if streams else ResponseCreateParamsNonStreaming
    schema: Any = _strict(TypeAdapter(kind).core_schema)
    return SchemaValidator(schema)


def _strict(schema: Any) -> Any:  # noqa: ANN401 - a core schema is a tree of anything
    """Return a schema in which typed dictionaries have no further fields, and generators are lists."""
    match schema:
        case {"type": "generator"}:
            return _strict({**schema, "type": "list"})
        case {"type": "typed-dict"}:
            return {**{name: _strict(part) for name, part in schema.items()}, "extra_behavior": "forbid"}
        case dict():
            return {name: part if name in ("metadata", "config") else _strict(part) for name, part in schema.items()}
        case list():
            return [_strict(part) for part in schema]
        case tuple():
            return tuple(_strict(part) for part in schema)
        case _:
            return schema
