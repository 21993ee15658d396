"""The pages that did not answer when Playwright connected: named, so that the model knows of them and can close them.

Flows in: a connection that is new. Flows out: sentences. Decided here: that Chromium itself is asked which
pages there are, since Playwright does not know one before it answers; how a page that waits for a server is known from one
that hangs; and what is said of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Page

PAGES_S: Final = 3.0
"""How long Playwright waits for pages when it connects, as `patient.cjs` has it."""
_ANSWER_MS: Final = 2_000
_TOLD_S: Final = 0.5
"""How long Chromium, and no page, has to tell of a page's navigation; 10 ms are usual."""
_NAVIGATION: Final = ("Page.enable", "Page.getNavigationHistory")
"""The first is answered by the page, when it can, but tells at once of a navigation; the second is Chromium's own, and comes after."""
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
    said = [
        _sentence(target, page.url, await _awaited_by(session, target["targetId"])) for target in silent[:_MOST_NAMED]
    ]
    more = len(silent) - len(said)
    return [*said, f"{more} more of the pages do not answer."] if more else said


async def awaited_by(page: Page) -> str | None:
    """Return the address that a page, which does not answer, waits for a server to send; None when it waits for none.

    Raises:
        playwright.async_api.Error: the browser does not say it.
    """
    browser = page.context.browser
    if browser is None:
        return None
    session = await browser.new_browser_cdp_session()
    try:
        return await _awaited_by(session, await _target_of(page.context, page))
    finally:
        await session.detach()


async def _awaited_by(session: CDPSession, target: str) -> str | None:
    """Ask on a session of its own: Chromium tells each new one of a navigation under way, and asks the page nothing until its end.

    Once the server has answered, the next page is up to a process, which may be busy: then the history is refused. Not a session of
    Playwright's: to end one, Playwright asks the page.
    """
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str | None] = loop.create_future()
    parameters: dict[str, Any] = {"targetId": target, "flatten": False}
    own = (await session.send("Target.attachToTarget", parameters, timeout=_ANSWER_MS))["sessionId"]

    begun: list[str] = []

    def take(event: dict[str, Any]) -> None:
        message = json.loads(event["message"]) if event["sessionId"] == own else {}
        if message.get("method") == "Page.frameStartedNavigating" and message["params"]["frameId"] == target:
            begun.append(message["params"]["url"])
        elif message.get("id") == len(_NAVIGATION) and not told.done():
            told.set_result(begun[-1] if begun and "result" in message else None)

    session.on("Target.receivedMessageFromTarget", take)
    try:
        for number, method in enumerate(_NAVIGATION, 1):
            message = json.dumps({"id": number, "method": method})
            await session.send("Target.sendMessageToTarget", {"sessionId": own, "message": message}, timeout=_ANSWER_MS)
        async with asyncio.timeout(_TOLD_S):
            return await told
    except TimeoutError:
        return None
    finally:
        session.remove_listener("Target.receivedMessageFromTarget", take)
        await session.send("Target.detachFromTarget", {"sessionId": own}, timeout=_ANSWER_MS)


async def _target_of(context: BrowserContext, page: Page) -> str:
    own = await context.new_cdp_session(page)
    target: dict[str, Any] = (await own.send("Target.getTargetInfo", timeout=_ANSWER_MS))["targetInfo"]
    with contextlib.suppress(
        TimeoutError
    ):  # before it is done, the page is asked once more; Playwright does it when that answers
        async with asyncio.timeout(_TOLD_S):
            await own.detach()
    return str(target["targetId"])


def _sentence(target: dict[str, Any], other: str, awaited: str | None) -> str:
    url = _cut(str(target["url"]))
    if awaited is None:
        first = (
            f"The page {url} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes "
            "without end, or its process was stopped. Until it answers"
        )
    else:
        first = f"A page is still loading {_cut(awaited)}: its server has not answered yet. Until it does,"
    return (
        f"{first} it is not in `context.pages`; the others are, and `page` is {_cut(other)}. To close it: "
        f"`{_CLOSE.format(target['targetId'])}`"
    )


def _cut(url: str) -> str:
    return url if len(url) <= _URL_CHARS else f"{url[:_URL_CHARS]}..."
