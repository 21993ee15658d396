"""A page that is on its way to another one.

Flows in: a connection to DevTools, and a page's target. Flows out: whither it goes, and whether the server has answered. Decided
here: that Chromium is asked, on a session of its own, and the page is not: until its server answers, Chromium holds back what the
page is asked, so that it is as silent as one that hangs.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from cellwright_kernel.devtools import Devtools, NotAnswered, Refused

_TOLD_S: Final = 1.0
"""How long Chromium, and no page, has to tell of a navigation; 10 ms are usual."""


@dataclass(frozen=True)
class Navigation:
    """A page's way to another one."""

    url: str
    """Where to; empty where Chromium does not tell it."""
    is_answered: bool
    """Whether the server has answered. The next page is then up to a process, which may be busy."""


async def navigation_of(devtools: Devtools, target_id: str) -> Navigation | None:
    """Return where a page is on its way to; None when it goes nowhere, has gone, or Chromium does not tell in time.

    `Page.enable` is answered by the page, when it can, but tells each new session at once of a navigation under way; the history is
    Chromium's own answer and comes after that. It is refused from the server's answer until the next page is there.

    Raises:
        DevtoolsError: the connection is gone.
    """
    try:
        attached = await devtools.call("Target.attachToTarget", targetId=target_id, flatten=True)
    except Refused:
        return None
    session = str(attached["sessionId"])
    try:
        await devtools.tell("Page.enable", session)
        await devtools.call("Page.getNavigationHistory", session, _TOLD_S)
    except NotAnswered:
        return None
    except Refused:
        return Navigation(_begun(devtools, session, target_id) or "", is_answered=True)
    else:
        url = _begun(devtools, session, target_id)
        return None if url is None else Navigation(url, is_answered=False)
    finally:
        with contextlib.suppress(Refused):  # the page has gone meanwhile
            await devtools.call("Target.detachFromTarget", sessionId=session)


def _begun(devtools: Devtools, session: str, frame: str) -> str | None:
    """Return where the page itself, and no frame in it, has last begun to go; its frame has the target's id."""
    begun = [
        str(event["params"]["url"])
        for event in devtools.events_of(session)
        if event["method"] == "Page.frameStartedNavigating" and event["params"]["frameId"] == frame
    ]
    return begun[-1] if begun else None
