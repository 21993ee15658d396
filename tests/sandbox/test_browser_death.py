"""Chromium dies, or hangs, and the next cell comes at once: in both languages it works on a living browser, and is told so."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.pages import LANGUAGES, chromium_of, ok

from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

DIED = (
    "chromium was ended by SIGKILL. Its pages are closed. "
    "A new browser was started on the same profile; pages that were open are closed."
)
NEW = "The browser was closed or restarted: `browser`, `context` and `page` are new objects."
HANGS = (
    "The browser cannot be reached (it did not answer within 2 s); `browser`, `context` and `page` are those from before. "
    "If it goes on so, end its process: another one is started."
)

OPEN: dict[Language, str] = {
    "python": "await page.goto('data:text/html,<title>open</title>')\ndef there(): return page.evaluate('1 + 1');",
    "javascript": "await page.goto('data:text/html,<title>open</title>'); function there() { return page.evaluate('1 + 1') }",
}
NAMED = "await page.evaluate('1 + 1')"
THROUGH_A_FUNCTION = "await there()"
KILL: dict[Language, str] = {
    "python": "import os; os.kill({}, 9)",
    "javascript": "process.kill({}, 'SIGKILL'); undefined",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session]:
    async with Session.open() as session:
        yield session


@pytest.mark.parametrize("user", LANGUAGES)
async def test_a_cell_right_after_the_browsers_death_works_on_the_new_one(user: Language) -> None:
    """Nobody waits for the death to be noticed: the cell is sent as soon as the signal is, whoever sent that."""
    async with asyncio.TaskGroup() as tasks:
        for code in (NAMED, THROUGH_A_FUNCTION):
            tasks.create_task(check_right_after_death(user, code))


async def check_right_after_death(user: Language, code: str) -> None:
    """In a session of its own: a browser that ends more than five times within a minute is not started again."""
    async with Session.open() as session:
        for killer in ("python", "javascript", "outside"):
            await ok(session, user, OPEN[user])
            outside, inside = chromium_of(session)
            if killer in KILL:
                await ok(session, killer, KILL[killer].format(inside))
            else:
                os.kill(outside, signal.SIGKILL)
            assert (code, killer, await ok(session, user, code)) == (code, killer, [DIED, NEW, "2"])
            assert (code, killer, await ok(session, user, code)) == (code, killer, ["2"])


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_browser_that_hangs_is_told_of_in_time_and_one_that_was_killed_meanwhile_is_replaced(
    session: Session, language: Language
) -> None:
    await ok(session, language, OPEN[language])
    outside, _ = chromium_of(session)
    url = {"python": "page.url", "javascript": "page.url()"}[language]
    os.kill(outside, signal.SIGSTOP)
    try:
        assert await ok(session, language, url) == [HANGS, "'data:text/html,<title>open</title>'"]
        began = time.monotonic()
        assert await ok(session, language, "1 + 1") == ["2"]
        assert time.monotonic() - began < 2  # who names the page waits as long
    finally:
        os.kill(outside, signal.SIGKILL)
    assert await ok(session, language, NAMED) == [DIED, NEW, "2"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_browser_that_hung_for_a_while_is_the_same_one_after(session: Session, language: Language) -> None:
    await ok(session, language, OPEN[language])
    outside, _ = chromium_of(session)
    os.kill(outside, signal.SIGSTOP)
    try:
        cell = await session.execute(NAMED, language=language, deadline_s=1)
        assert cell.status == "timeout"
    finally:
        os.kill(outside, signal.SIGCONT)
    assert await ok(session, language, "await page.title()") == ["'open'"]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_function_works_on_the_new_browser_after_the_model_closed_the_old_one(
    session: Session, language: Language
) -> None:
    await ok(session, language, OPEN[language])
    await ok(session, language, "await browser.close()")
    assert await ok(session, language, THROUGH_A_FUNCTION) == [NEW, "2"]
