"""The parameters of a run, as its kernels find them.

Flows in: `HostSettings.params`, or what an exported run says. Flows out: a variable of the environment, and from that, in each
kernel, `params`. Decided here: that they travel by the environment, so that a kernel has them before its first cell, and again
when it was restarted; that names and values are texts, and that code cannot change them; and that a session without any has no
such name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final, NoReturn

WHERE: Final = "CELLWRIGHT_PARAMS"
"""The variable: one object of JSON. The JavaScript kernel reads it, too."""


class _Params(dict[str, str]):
    """A dict that stays as it is, so that `json.dumps` and what else wants a dict takes it; a copy is a plain one."""

    def _stays(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("params does not support item assignment: a run's parameters stay as they are")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _stays

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def environment(params: Mapping[str, str]) -> dict[str, str]:
    """Return what the kernels find in their environment; nothing where there are no parameters."""
    return {WHERE: json.dumps(dict(params))} if params else {}


def given() -> dict[str, Mapping[str, str]]:
    """Return `params` under its name, read-only; nothing where there are none."""
    said = os.environ.get(WHERE)
    return {} if said is None else {"params": _Params(json.loads(said))}
