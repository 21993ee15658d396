"""`page.screenshot()` comes with what the page looks like now, also when a font of it never comes.

Flows in: a page. Flows out: Playwright's picture, and a sentence when it shows the page without one of its fonts. Decided
here: how long a font is waited for. Playwright itself would wait 30 s and then give no picture; that wait of its own is
switched off by the environment (`playwright_browsers`), in both languages.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from cellwright_kernel.python.after_import import AfterImport

_FONTS_S = 2.0
_PAGE_S = 3.0
_ARE_THERE = """limit_ms => Promise.race([
    document.fonts.ready.then(() => true), new Promise(done => setTimeout(done, limit_ms, false))])"""
_WITHOUT_FONTS = (
    f"A font of the page had not come after {_FONTS_S:g} s. The picture shows the page as it is without it: text may be "
    "missing, or stand in another font."
)


def prepare_pictures(say: Callable[[str], None], after_import: AfterImport) -> None:
    """Have Playwright's pages take pictures like this, once it is imported."""

    def prepare(module: ModuleType) -> None:
        original = module.Page.screenshot

        async def screenshot(page: Any, *args: Any, **options: Any) -> bytes:
            if not await _has_fonts(page):
                say(_WITHOUT_FONTS)
            return await original(page, *args, **options)  # type: ignore[no-any-return]

        module.Page.screenshot = screenshot

    after_import.do("playwright._impl.page", prepare)


async def _has_fonts(page: Any) -> bool:
    """False if one is still on its way. A page that does not even answer that is Playwright's to report."""
    try:
        async with asyncio.timeout(_PAGE_S):
            return await page.evaluate(_ARE_THERE, _FONTS_S * 1000) is not False
    except Exception:
        return True
