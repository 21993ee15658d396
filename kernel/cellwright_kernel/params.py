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
from types import MappingProxyType
from typing import Final

WHERE: Final = "CELLWRIGHT_PARAMS"
"""The variable: one object of JSON. The JavaScript kernel reads it, too."""


def environment(params: Mapping[str, str]) -> dict[str, str]:
    """Return what the kernels find in their environment; nothing where there are no parameters."""
    return {WHERE: json.dumps(dict(params))} if params else {}


def given() -> dict[str, Mapping[str, str]]:
    """Return `params` under its name, read-only; nothing where there are none."""
    said = os.environ.get(WHERE)
    return {} if said is None else {"params": MappingProxyType(json.loads(said))}
