"""What is said of pages that do not answer, as the Python kernel asks for it.

Flows in: Playwright's pages. Flows out: the sentences of `cellwright_kernel.silent_pages`. Decided here: how a page of Playwright's
is known to Chromium; that what asks Chromium is not loaded before a page is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import Page

_ANSWER_MS: Final = 2_000
_DETACHED_S: Final = 0.5


async def silent_pages(page: Page) -> list[str]:
    """Return what to say of the pages that Playwright does not know yet.

    Args:
        page: The one that is used instead, of the context whose pages are known.

    Raises:
        playwright.async_api.Error: a page's target is not told.
    """
    from cellwright_kernel import silent_pages as of_all

    known = {await _target_of(one) for one in page.context.pages}
    return await of_all.silent_pages(os.environ["CELLWRIGHT_CDP"], known, page.url, "python")


async def awaited_by(page: Page) -> str | None:
    """Return the address that a page, which does not answer, waits for a server to send; None when it waits for none.

    Raises:
        playwright.async_api.Error: the page's target is not told.
    """
    from cellwright_kernel import silent_pages as of_all

    return await of_all.awaited_by(os.environ["CELLWRIGHT_CDP"], await _target_of(page))


async def _target_of(page: Page) -> str:
    own = await page.context.new_cdp_session(page)
    target: dict[str, Any] = (await own.send("Target.getTargetInfo", timeout=_ANSWER_MS))["targetInfo"]
    # before it is done, the page is asked once more; Playwright does it when that answers
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DETACHED_S):
            await own.detach()
    return str(target["targetId"])
