"""A record -> the same without values of secrets.

Flows in: a record, or what a run is. Flows out: itself, or one that has `[secret NAME]` in their place. Decided here: every
text in it is looked at, keys included, whoever said it; but for hashes and moments, in which a value of six digits may stand
by chance, and which name blobs.

What comes out of a sandbox has no value any more: its door hides them, since the model and the callers see it first. A
record is made of more than that: the task and the code, what the model was sent and answered, what was asked of the way
out, names of the caller's files, notes, errors of our own that quote any of these, and how the run ended. The journal is the
one place that all of it passes, so it has every record hidden, outputs too, which costs them 0.07 ms of a cell.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from cellwright.record.records import RECORD, Record
from cellwright.record.run_info import RunInfo
from cellwright.secrets import Hider

_OURS: Final = re.compile(r"(sha256:)?[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


def record_without_values(record: Record, hider: Hider) -> Record:
    """Return a record without values."""
    if not hider:
        return record
    fields: JsonValue = record.model_dump(mode="json")
    hidden = _hidden(fields, hider)
    return record if hidden == fields else RECORD.validate_python(hidden)


def info_without_values(info: RunInfo, hider: Hider) -> RunInfo:
    """Return what a run is without values in the words and options that it was started with."""
    fields: dict[str, JsonValue] = info.model_dump(mode="json")
    said = {name: _hidden(value, hider) for name, value in fields.items() if name in {"spec", "task", "model"}}
    return RunInfo.model_validate({**fields, **said})


def _hidden(value: JsonValue, hider: Hider) -> JsonValue:
    match value:
        case str():
            return value if _OURS.fullmatch(value) else hider.hide(value)
        case list():
            return [_hidden(one, hider) for one in value]
        case dict():
            return {hider.hide(name): _hidden(one, hider) for name, one in value.items()}
        case _:
            return value
