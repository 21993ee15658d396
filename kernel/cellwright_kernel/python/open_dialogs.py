"""The dialogs of pages that are open: while one is, its page answers nobody, and neither does a cell that waits for it.

Flows in: Playwright's news of dialogs that open and close. Flows out: a sentence when a cell has failed beside an open one.
Decided here: a cell that was interrupted was waiting for nobody, so its dialogs are dismissed; after any other error they
are only named, since the code may hold one and answer it in the next cell.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.async_api import BrowserContext, Dialog

_DISMISS_S = 0.4
"""Less than a second: then the next rung of the deadline's ladder follows the interrupt. 5 ms are usual."""


class OpenDialogs:
    """Knows which dialogs are open.

    Args:
        say: Tells the model a sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._open: dict[object, Dialog] = {}

    def watch(self, context: BrowserContext) -> None:
        """Follow the dialogs of a context that is new; those of one before it are gone."""
        self._open.clear()
        context.on("dialog", self._opened)
        context.on("dialogclosed", self._closed)

    async def after_failed_cell(self, *, is_interrupted: bool) -> None:
        """Say which dialogs are open; dismiss them if the cell was interrupted."""
        for dialog in list(self._open.values()):
            named = f"A dialog of the page is open: {dialog.type}({dialog.message!r}). "
            if not is_interrupted:
                self._say(
                    f"{named}Until it is answered, the page answers nothing; a listener for it has to accept or dismiss it."
                )
            elif await self._is_dismissed(dialog):
                self._say(f"{named}The cell could not go on; the dialog was dismissed, so that the page can be used.")
            else:
                self._say(f"{named}It could not be dismissed. Open another page: `page = await context.new_page()`.")

    def _opened(self, dialog: Dialog) -> None:
        self._open[dialog._impl_obj] = dialog

    def _closed(self, dialog: Dialog) -> None:
        self._open.pop(dialog._impl_obj, None)

    async def _is_dismissed(self, dialog: Dialog) -> bool:
        self._closed(dialog)
        try:
            async with asyncio.timeout(_DISMISS_S):
                await dialog.dismiss()
        except Exception:
            return False
        return True
