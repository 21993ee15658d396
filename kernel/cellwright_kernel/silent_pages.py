"""The pages that did not answer when Playwright connected: named, so that the model knows of them and can close them.

Flows in: the address of DevTools, and which pages Playwright knows. Flows out: sentences. Decided here: that Chromium itself is
asked which pages there are, since Playwright does not know one before it answers; and how many are named. Both kernels use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final

from cellwright_kernel import sentences
from cellwright_kernel.devtools import Devtools, DevtoolsError
from cellwright_kernel.devtools_http import socket_url
from cellwright_kernel.navigation import navigation_of
from cellwright_kernel.wire import Language

_ANSWER_S: Final = 2.0
_MOST_NAMED: Final = 3


async def silent_pages(address: str, known: Collection[str], instead: str, language: Language) -> list[str]:
    """Return a sentence for each of the first pages that Playwright does not know yet, and how many more there are.

    Args:
        address: Such as `http://127.0.0.1:9222`.
        known: Targets of the pages that it knows.
        instead: Address of the page that is used.
        language: Whose kernel tells it.
    """
    try:
        async with _connected(address) as devtools:
            return await _said(devtools, known, instead, language)
    except DevtoolsError:  # it goes without saying: the pages that answer are there
        return []


async def awaited_by(address: str, target_id: str) -> str | None:
    """Return the address that a page waits for a server to send; None when it waits for none, or Chromium does not say it."""
    try:
        async with _connected(address) as devtools:
            return await _awaited(devtools, target_id)
    except DevtoolsError:
        return None


async def _said(devtools: Devtools, known: Collection[str], instead: str, language: Language) -> list[str]:
    targets = (await devtools.call("Target.getTargets", within_s=_ANSWER_S))["targetInfos"]
    silent = [target for target in targets if target["type"] == "page" and target["targetId"] not in known]
    said = [
        sentences.page_silent(
            str(target["url"]), target["targetId"], await _awaited(devtools, target["targetId"]), instead, language
        )
        for target in silent[:_MOST_NAMED]
    ]
    more = len(silent) - len(said)
    return [*said, f"{more} more of the pages do not answer."] if more else said


async def _awaited(devtools: Devtools, target_id: str) -> str | None:
    navigation = await navigation_of(devtools, target_id)
    return None if navigation is None or navigation.is_answered else navigation.url


@asynccontextmanager
async def _connected(address: str) -> AsyncIterator[Devtools]:
    try:
        url = await asyncio.to_thread(socket_url, address, _ANSWER_S)
    except (OSError, ValueError) as error:
        raise DevtoolsError(f"The browser's DevTools could not be reached: {error}") from error
    async with Devtools.opened(url) as devtools:
        yield devtools
