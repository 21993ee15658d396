"""JSON schemas: whether one is one, and whether a value satisfies it.

Flows in: a schema of the user's, a value of the model's. Flows out: what is wrong, as a sentence. Decided here: that a schema stands
for itself, so that nothing is ever fetched; which of several faults is told; and that a schema which could keep somebody busy for ever
is followed in a process of its own, for a while. The library is imported where it is used: most runs have no schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from pydantic import JsonValue

from cellwright.errors import UsageError

_FAULTS: Final = 5
_FAULT_CHARS: Final = 500
_WITHIN_S: Final = 10.0
"""Seconds in which an answer is compared with its schema."""
_SLOW: Final = frozenset({"pattern", "patternProperties", "uniqueItems"})
"""What may take longer than anybody waits: some patterns a time that doubles with each character."""
_REFERENCES: Final = ("$ref", "$dynamicRef")


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
    except RecursionError as error:
        raise UsageError("The schema is nested too deep. Nothing was started. Put its parts under $defs.") from error
    if foreign := sorted(_foreign_references(schema)):
        raise UsageError(
            f"The schema refers to {foreign[0]!r}, which does not stand in it, and nothing is fetched. Nothing was started. Put "
            "it under $defs."
        )


async def not_valid_in_time(value: JsonValue, schema: JsonValue, *, within_s: float = _WITHIN_S) -> str | None:
    """Return the same as `not_valid`; that it took too long is a fault, too."""
    if not _may_take_long(schema):
        return not_valid(value, schema)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(within_s):
            printed, _ = await process.communicate(json.dumps([value, schema]).encode())
        told: str | None = json.loads(printed)
    except TimeoutError:
        return f"it could not be compared with the schema within {within_s:g} s."
    except ValueError:
        return f"the schema could not be followed (status {process.returncode})."
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return told


def not_valid(value: JsonValue, schema: JsonValue) -> str | None:
    """Return in which ways a value does not satisfy a schema, as sentences; None when it does."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - see above
    from referencing import Registry  # noqa: PLC0415 - see above

    checker = Draft202012Validator(cast("dict[str, object]", schema), registry=Registry())
    try:
        faults = sorted(checker.iter_errors(value), key=lambda fault: [str(part) for part in fault.absolute_path])
    except Exception as error:
        return f"the schema could not be followed ({type(error).__name__}: {str(error)[:_FAULT_CHARS]})."
    if not faults:
        return None
    told = [f"at {fault.json_path}: {fault.message[:_FAULT_CHARS]}." for fault in faults[:_FAULTS]]
    more = [f"{len(faults) - _FAULTS} more."] if len(faults) > _FAULTS else []
    return " ".join([*told, *more])


def _foreign_references(schema: JsonValue) -> set[str]:
    return {
        part
        for name, part in _named(schema)
        if name in _REFERENCES and isinstance(part, str) and not part.startswith("#")
    }


def _may_take_long(schema: JsonValue) -> bool:
    """Return whether it has what is slow, or more references than one: those double the work with each step."""
    names = [name for name, _ in _named(schema)]
    return not _SLOW.isdisjoint(names) or sum(name in _REFERENCES for name in names) > 1


def _named(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield each member of each object in a value."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield from part.items()
        left.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def _main() -> None:
    value, schema = json.load(sys.stdin.buffer)
    sys.stdout.write(json.dumps(not_valid(value, schema)))


if __name__ == "__main__":
    _main()
