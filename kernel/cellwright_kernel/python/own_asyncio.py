"""asyncio as it was before any cell ran, for what the kernel itself needs between two cells.

Flows in: the modules that are loaded when the kernel is ready. Flows out: nothing; those of the kernel have an asyncio of their own
then. Decided here: whose: ours, and the libraries that bring a cell here and its answer back. A cell that sets `asyncio.sleep` to
something else, as code that tests with a clock of its own does, would have the next one never begin. The JavaScript kernel does the
same in `own.cjs`. Tasks are made as asyncio says now: `nest_asyncio` replaces their class, and the cell's must be one of them.
"""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from typing import Final

_KERNELS: Final = ("cellwright_kernel", "ipykernel", "tornado", "zmq", "jupyter_client")
_AS_IT_IS_NOW: Final = ("cellwright_kernel.python.background",)


def hold_asyncio() -> None:
    """Have the kernel's modules that are loaded by now use asyncio as it is now."""
    everybodys = asyncio  # this module is one of those, too
    own = ModuleType("asyncio", asyncio.__doc__)
    vars(own).update(vars(asyncio))
    for name, module in list(sys.modules.items()):
        is_kernels = name.partition(".")[0] in _KERNELS and name not in _AS_IT_IS_NOW
        if is_kernels and vars(module).get("asyncio") is everybodys:
            vars(module)["asyncio"] = own
