"""JSON schemas: whether one is one, and whether a value satisfies it.

Flows in: a schema of the user's, a value of the model's. Flows out: what is wrong, as a sentence. Decided here: that a schema stands
for itself, so that nothing is ever fetched; and which of several faults is told. The library is imported where it is used: most runs
have no schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from cellwright.errors import UsageError

_FAULTS: Final = 5
_FAULT_CHARS: Final = 500


def read_schema(path: Path) -> JsonValue:
    """Return the JSON schema in a file.

    Raises:
        UsageError: It cannot be read, or is none. Nothing was started.
    """
    try:
        schema: JsonValue = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"The schema {path} cannot be read: {error}. Nothing was started.") from error
    check_schema(schema)
    return schema


def check_schema(schema: JsonValue) -> None:
    """Raise UsageError where a value is no JSON schema, or one that refers to another."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - see above

    if not isinstance(schema, dict):
        raise UsageError("A JSON schema is an object. Nothing was started.")
    try:
        Draft202012Validator.check_schema(cast("dict[str, object]", schema))
    except SchemaError as error:
        raise UsageError(
            f"This is no JSON schema: {error.message} at {error.json_path}. Nothing was started."
        ) from error
    if foreign := sorted(_foreign_references(schema)):
        raise UsageError(
            f"The schema refers to {foreign[0]!r}, which does not stand in it, and nothing is fetched. Nothing was started. Put "
            "it under $defs."
        )


def not_valid(value: JsonValue, schema: JsonValue) -> str | None:
    """Return in which ways a value does not satisfy a schema, as sentences; None when it does."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see above
    from referencing import Registry  # noqa: PLC0415 - see above
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - see above

    checker = Draft202012Validator(cast("dict[str, object]", schema), registry=Registry())
    try:
        faults = sorted(checker.iter_errors(value), key=lambda fault: [str(part) for part in fault.absolute_path])
    except (Unresolvable, RecursionError) as error:
        return f"the schema could not be followed ({type(error).__name__}: {str(error)[:_FAULT_CHARS]})."
    if not faults:
        return None
    told = [f"at {fault.json_path}: {fault.message[:_FAULT_CHARS]}." for fault in faults[:_FAULTS]]
    more = [f"{len(faults) - _FAULTS} more."] if len(faults) > _FAULTS else []
    return " ".join([*told, *more])


def _foreign_references(value: JsonValue) -> set[str]:
    found = set[str]()
    for name, part in value.items() if isinstance(value, dict) else ():
        if name in ("$ref", "$dynamicRef") and isinstance(part, str) and not part.startswith("#"):
            found.add(part)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found.union(*(_foreign_references(part) for part in parts))
