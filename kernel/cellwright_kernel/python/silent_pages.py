"""The pages that did not answer when Playwright connected: named, so that the model knows of them and can close them.

Flows in: a connection that is new. Flows out: sentences. Decided here: that Chromium itself is asked which
pages there are, since Playwright does not know one before it answers; and what is said of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

PAGES_S: Final = 3.0
"""How long Playwright waits for pages when it connects, as `patient.cjs` has it."""
_ANSWER_MS: Final = 2_000
_MOST_NAMED: Final = 3
_URL_CHARS: Final = 100
_CLOSE: Final = 'await (await browser.new_browser_cdp_session()).send("Target.closeTarget", {{"targetId": "{}"}})'


async def silent_pages(session: CDPSession, page: Page) -> list[str]:
    """Return a sentence for each of the first pages that Playwright does not know yet, and how many more there are.

    Args:
        session: The browser's own.
        page: The one that is used instead, of the context whose pages are known.

    Raises:
        playwright.async_api.Error: the browser does not say which pages there are.
    """
    targets = (await session.send("Target.getTargets", timeout=_ANSWER_MS))["targetInfos"]
    known = {await _target_of(page.context, one) for one in page.context.pages}
    silent = [target for target in targets if target["type"] == "page" and target["targetId"] not in known]
    said = [_sentence(target, page.url) for target in silent[:_MOST_NAMED]]
    more = len(silent) - len(said)
    return [*said, f"{more} more of the pages do not answer."] if more else said


async def _target_of(context: BrowserContext, page: Page) -> str:
    own = await context.new_cdp_session(page)
    target: dict[str, Any] = (await own.send("Target.getTargetInfo", timeout=_ANSWER_MS))["targetInfo"]
    await own.detach()
    return str(target["targetId"])


def _sentence(target: dict[str, Any], other: str) -> str:
    return (
        f"The page {_cut(str(target['url']))} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript "
        "computes without end, or its process was stopped. Until it answers it is not in `context.pages`; the others are, and "
        f"`page` is {_cut(other)}. To close it: `{_CLOSE.format(target['targetId'])}`"
    )


def _cut(url: str) -> str:
    return url if len(url) <= _URL_CHARS else f"{url[:_URL_CHARS]}..."
