"""What Node asks of pages that do not answer -> what is said of them.

Flows in: Node's calls, with the targets of the pages that its Playwright knows. Flows out: sentences, or an address. Decided here:
each call has a loop of its own, in the thread that the call has; every wait in it has an end.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

_CALLS: Final = ("silent_pages", "awaited_by")


class SilentPagesCalls:
    """Does what Node asks of silent pages."""

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Do one call; what it needs is loaded when it is first asked for."""
        from cellwright_kernel import silent_pages  # noqa: PLC0415 - as it says

        work = getattr(silent_pages, _CALLS[_CALLS.index(name)])
        return asyncio.run(work(os.environ["CELLWRIGHT_CDP"], *arguments))
