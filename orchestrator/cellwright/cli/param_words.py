"""How parameters of a run are written on a command line: `NAME=VALUE`.

Flows in: the words after `--param`, `--set` and `--lift`. Flows out: values by name. Decided here: that a value is all that
stands behind the first `=`, empty or not; and the sentence for a word that is not written so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cellwright.errors import UsageError
from cellwright.plain import plain
from cellwright.sandbox.base import PARAM_NAME


def params_from(words: Sequence[str], option: str) -> dict[str, str]:
    """Return what words such as `city=Rome` say.

    Raises:
        UsageError: One is not written so, or a name stands in two of them.
    """
    params: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(PARAM_NAME, name):
            raise UsageError(
                f"{option} {plain(word[:80])!r} names no parameter. Nothing was started. Write NAME=VALUE, with a name of letters, digits and _."
            )
        if name in params:
            raise UsageError(f"{option} {name} was given twice. Nothing was started. Give one value.")
        params[name] = value
    return params
