"""The parameters of an exported script, and what its command line makes of them.

Flows in: the script's own values, and words such as `--set city=Oslo`. Flows out: the values of this time. Decided here: that
there is this one option, for parameters that the script has; and that any other word ends it, with status 2, before a cell runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_OPTION: Final = "--set"


def from_command_line(params: Mapping[str, str], words: Sequence[str]) -> dict[str, str]:
    """Return the parameters, with the values that the command line gives them; ends the process where it makes no sense."""
    values = dict(params)
    for word in _set_words(words):
        name, equals, value = word.partition("=")
        if not equals or name not in params:
            _end(f"{_OPTION} {word}: there is no such parameter.", params)
        values[name] = value
    return values


def _set_words(words: Sequence[str]) -> Iterator[str]:
    left = iter(words)
    for word in left:
        if word.startswith(f"{_OPTION}="):
            yield word.removeprefix(f"{_OPTION}=")
        elif word == _OPTION:
            yield next(left, "")
        else:
            _end(f"{word}: there is no such option.", {})


def _end(what: str, params: Mapping[str, str]) -> None:
    has = f" It has: {', '.join(params)}." if params else ""
    print(f"{what}{has} Nothing has run. Use {_OPTION} NAME=VALUE, as often as needed.", file=sys.stderr)  # noqa: T201 - a script
    sys.exit(2)
