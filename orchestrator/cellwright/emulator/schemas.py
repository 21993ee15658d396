"""Whether a JSON schema is one that the API takes as strict.

Flows in: a schema, of a function's parameters or of an answer's text. Flows out: None, or a sentence with what keeps it from being strict.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue


def strict_problem(schema: JsonValue, where: str = "") -> str | None:
    """Return why a schema is not strict; None when it is: objects are closed, and have every property in `required`.

    Args:
        schema: An object's.
        where: Path to it, for the sentence.
    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return f"schema must be a JSON schema of 'type: \"object\"'{_at(where)}."
    return _problem(schema, where)


def _problem(schema: JsonValue, where: str) -> str | None:
    return next(_problems(schema, where), None)


def _problems(schema: JsonValue, where: str) -> Iterator[str]:
    if isinstance(schema, list):
        for part in schema:
            yield from _problems(part, where)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if schema.get("additionalProperties") is not False:
            yield f"'additionalProperties' is required to be supplied and to be false{_at(where)}."
        names = list(properties) if isinstance(properties, dict) else []
        if not isinstance(required, list) or sorted(map(str, required)) != sorted(names):
            yield f"'required' is required to be an array including every key in properties{_at(where)}."
    for name in ("properties", "$defs"):
        parts = schema.get(name)
        for key, part in parts.items() if isinstance(parts, dict) else ():
            yield from _problems(part, f"{where}.{key}" if where else key)
    for name in ("items", "anyOf"):
        yield from _problems(schema.get(name), where)


def _at(where: str) -> str:
    return f" (at {where})" if where else ""
