"""The secrets of one session: the one object that has their values.

Flows in: values by name, from whoever opens the session. Flows out: placeholders, which are new in each session, and
texts without values. Decided here: which values can be kept secret at all. A value stands in no Spec, no record and no
error, and `repr` of this shows names only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Final

from cellwright.errors import UsageError
from cellwright.secrets.hiding import Hider
from cellwright_kernel.secrets.placeholder import PLACEHOLDER

LEAST_CHARS: Final = 6
"""A shorter value would be found in half of what is said, and nothing could be read any more."""
MOST_CHARS: Final = 1024
"""Fits into a header; the longest key in use has some 200, and its forms are found in 20 ms."""
_NO_LINE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Secrets:
    """Values by name; false when there are none.

    Args:
        values: Name -> value.
        hosts: Name -> where a placeholder of it is replaced; a name without any is typed only.

    Raises:
        UsageError: A value is not one that can be kept secret.
    """

    def __init__(self, values: Mapping[str, str], hosts: Mapping[str, Sequence[str]] | None = None) -> None:
        for name, value in values.items():
            _check(name, value)
        self._values = dict(values)
        self.hosts = {name: tuple((hosts or {}).get(name, ())) for name in values}
        """Name -> the hosts that it is bound to, as allow-list entries."""
        self.placeholders = {name: f"{PLACEHOLDER}{name}_{token_hex(12)}" for name in values}
        """Name -> what stands for its value inside; letters, digits and underscores, which no encoding changes."""
        # without spaces around it, which a form may take away
        self._hider = Hider({name: value.strip() for name, value in values.items()})

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<Secrets: {', '.join(sorted(self._values)) or 'none'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(sorted(self._values))

    @property
    def hider(self) -> Hider:
        """What hides the values."""
        return self._hider

    def value(self, name: str) -> str:
        """Return a value; only what sends or types it asks."""
        return self._values[name]

    def hide(self, text: str) -> str:
        """Return a text without values."""
        return self._hider.hide(text) if self._values else text


def _check(name: str, value: str) -> None:
    if len(value.strip()) < LEAST_CHARS:
        raise UsageError(
            f"The value of the secret {name} has {len(value.strip())} characters. It would be hidden wherever these stand, in half of "
            f"what a cell says. Nothing was started. Only values of {LEAST_CHARS} characters and more can be secrets."
        )
    if len(value) > MOST_CHARS or _NO_LINE.search(value):
        raise UsageError(
            f"The value of the secret {name} is no single line of at most {MOST_CHARS} characters. Usually it was read from a "
            "file with its line break. Nothing was started. Give one line, without control characters."
        )


NONE: Final = Secrets({})
"""No secrets."""
