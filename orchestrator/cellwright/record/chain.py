"""The one place that says how a value becomes a hashed line, and how a line is proved to be unchanged.

Flows in: JSON objects. Flows out: one line of ASCII each, which ends in its own hash, and back. Decided here: the
canonical serialisation, and that the hash covers the bytes of the line as they stand on disk (all of them before
`,"hash":`), so that any changed byte is found and nothing need be serialised again to check it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

HASH_PREFIX: Final = "sha256:"

_SEAL = re.compile(rb',"hash":"(sha256:[0-9a-f]{64})"\}')
_SEAL_BYTES: Final = len(b',"hash":"sha256:"}') + 64


class NotSealed(ValueError):
    """A line that does not carry its own hash, or another one; the message says which, as half a sentence."""


@dataclass(frozen=True)
class Sealed:
    """What one line holds."""

    body: dict[str, JsonValue]
    """Everything but the hash."""
    hash: str
    """`sha256:` and 64 hex digits."""


def canonical(body: dict[str, JsonValue]) -> bytes:
    r"""Return the one serialisation that is hashed and written: ASCII, no spaces, keys in their order.

    Lone surrogates survive as `\udc00`. Raises ValueError for NaN and infinities, which JSON does not have.
    """
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(data: bytes) -> str:
    """Return the hash of bytes with its algorithm in front."""
    return HASH_PREFIX + hashlib.sha256(data).hexdigest()


def seal(body: dict[str, JsonValue]) -> tuple[bytes, str]:
    """Return the line for a non-empty object, with its newline, and the hash that it carries."""
    data = canonical(body)
    own = digest(data)
    return b"%s,%s\n" % (data[:-1], canonical({"hash": own})[1:]), own


def unseal(line: bytes) -> Sealed:
    """Return what a line (without its newline) holds.

    Raises:
        NotSealed: when the line is not one of ours or was changed.
    """
    match = _SEAL.fullmatch(line[-_SEAL_BYTES:])
    if match is None:
        raise NotSealed("does not end in its hash")
    own = match[1].decode("ascii")
    data = line[:-_SEAL_BYTES] + b"}"
    if digest(data) != own:
        raise NotSealed("does not match its hash")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotSealed("is not JSON, though its hash is right") from error
    if not isinstance(body, dict):
        raise NotSealed("is not a JSON object")
    return Sealed(body, own)
