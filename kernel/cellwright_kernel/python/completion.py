"""What may stand at the cursor, for a person at a console who is attached to the kernel.

Flows in: the code before the cursor, and the kernel's variables. Flows out: names and dotted paths. Decided here: no code
runs for it, so nothing is completed behind a property; and it costs nothing until it is asked for (jedi takes 60 ms).
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from typing import Any, Final

_PATH: Final = re.compile(r"((?:[^\W\d]\w*\.)*)((?:[^\W\d]\w*)?)$")
_MOST: Final = 200
_MISSING: Final = object()


def complete(before: str, variables: dict[str, Any]) -> tuple[list[str], int]:
    """Return what fits, sorted, and where in `before` it begins."""
    found = _PATH.search(before)
    path, begun = found.groups() if found else ("", "")
    if path:
        holder = _value_of(path.rstrip(".").split("."), variables)
        names = [] if holder is _MISSING else dir(holder)
    else:
        names = [*variables, *dir(builtins), *keyword.kwlist]
    fitting = {name for name in names if name.startswith(begun) and (begun.startswith("_") or not name.startswith("_"))}
    return [path + name for name in sorted(fitting)][:_MOST], len(before) - len(path) - len(begun)


def _value_of(path: list[str], variables: dict[str, Any]) -> Any:
    value = variables.get(path[0], getattr(builtins, path[0], _MISSING))
    for name in path[1:]:
        value = inspect.getattr_static(value, name, _MISSING)
        if value is _MISSING or isinstance(value, property):
            return _MISSING
    return value
