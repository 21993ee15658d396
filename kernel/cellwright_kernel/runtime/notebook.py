"""What a stock Jupyter kernel is taught, so that a run's cells do there what they did.

Flows in: IPython's shell. Flows out: the same shell, whose cells may call `asyncio.run` and wait for `screen` and `ui` while
the kernel's loop goes on; and the magic `%%exec_js`. Decided here: that every cell is run as one that may wait, since only
then its loop can go on.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cellwright_kernel.python.asyncio_run import driven
from cellwright_kernel.runtime.javascript import JavaScript


def let_cells_be_driven(shell: Any) -> None:
    """From the next cell on, `asyncio.run` and what waits give the kernel's loop back meanwhile."""
    if getattr(shell, "is_driven_by_cellwright", False):
        return
    original = shell.run_cell_async

    async def run_cell_async(*args: Any, **options: Any) -> Any:
        return await driven(original(*args, **options))

    shell.run_cell_async = run_cell_async
    shell.should_run_async = lambda *_args, **_options: True
    shell.is_driven_by_cellwright = True


def offer_exec_js(shell: Any, javascript: JavaScript) -> None:
    """Define `%%exec_js`: the cell below it is executed by Node, which keeps its variables."""

    def exec_js(_line: str, code: str) -> None:
        asyncio.run(javascript.run(code))  # ours: the cell waits, and the kernel's loop goes on

    exec_js.__doc__ = "Execute the cell as JavaScript, with the browser's page if there is one."
    shell.register_magic_function(exec_js, "cell", "exec_js")
