"""How limits of a sandbox are written on the command line.

Flows in: the words after `--memory`, `--disk`, `--cpus`. Flows out: `Limits`. Decided here: that a size has a unit, of which a
K is 1024; and the sentence for a word that is none.
"""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import ValidationError

from cellwright.errors import UsageError
from cellwright.sandbox.base import Limits

_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,3})?) ?([KMG])(?:i?B)?", re.IGNORECASE)
_BYTES: Final = {"K": 1024, "M": 1024**2, "G": 1024**3}
_OPTION_OF: Final = {"memory_bytes": "--memory", "tmp_bytes": "--disk", "cpus": "--cpus"}


def limits_from(memory: str | None, disk: str | None, cpus: float | None) -> Limits | None:
    """Return the limits that the words name; None where there is no word.

    Raises:
        UsageError: One is not written as it must be, or is too little to work with.
    """
    said: dict[str, Any] = {
        "memory_bytes": None if memory is None else _bytes_of("--memory", memory),
        "tmp_bytes": None if disk is None else _bytes_of("--disk", disk),
        "cpus": cpus,
    }
    said = {name: value for name, value in said.items() if value is not None}
    try:
        return Limits(**said) if said else None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = _OPTION_OF[str(first["loc"][0])]
        given = {"--memory": memory, "--disk": disk, "--cpus": cpus}[option]
        least = first.get("ctx", {}).get("ge")
        why = "it is no number above 0" if least is None else f"the least is {least // 1024**2}M"
        raise UsageError(f"{option} {given}: {why}. Nothing was started. Give more.") from error


def _bytes_of(option: str, word: str) -> int:
    match = _SIZE.fullmatch(word.strip())
    if match is None:
        raise UsageError(f"{option} {word!r} is not a size. Nothing was started. Write it like 512M or 2G.")
    return int(float(match[1]) * _BYTES[match[2].upper()])
