"""A record -> the same without values of secrets.

Flows in: a record. Flows out: itself, or one that has `[secret NAME]` in their place. Decided here: every text in it is
looked at, keys included, whoever said it: the model, the code, the caller; but for hashes and moments, in which a value of six
digits may stand by chance, and which name blobs.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import JsonValue

from cellwright.record.records import RECORD, Record
from cellwright.secrets import Hider

_OURS: Final = re.compile(r"(sha256:)?[0-9a-f]{64}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


def record_without_values(record: Record, hider: Hider) -> Record:
    """Return a record without values."""
    fields: JsonValue = record.model_dump(mode="json")
    hidden = _hidden(fields, hider)
    return record if hidden == fields else RECORD.validate_python(hidden)


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
