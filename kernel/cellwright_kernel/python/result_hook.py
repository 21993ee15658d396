"""`sys.displayhook` in the kernel: values that a magic shows.

Flows in: values. Flows out: the same as for the last expression of a cell. Decided here: nothing is remembered; IPython's
hook would keep each value alive in `Out`.
"""

from __future__ import annotations

from typing import Any

from IPython.core.displayhook import DisplayHook


class ResultHook(DisplayHook):  # type: ignore[misc]
    """Shows a value as the result of a cell."""

    topic = b"execute_result"
    session: Any = None
    pub_socket: Any = None

    def __call__(self, result: Any = None) -> None:
        """Show it, unless it is None."""
        if result is not None:
            self.shell.user_ns["_"] = result
            self.shell.show.result(result)
