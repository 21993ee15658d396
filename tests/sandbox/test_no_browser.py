"""A desktop without a browser: Chromium is not there, is said not to be there, and nothing else is missed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.serving import descendants

from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

NOTICE = "There is no browser in this session: `browser`, `context` and `page` are not there."


@pytest_asyncio.fixture
async def session() -> AsyncIterator[Session]:
    async with Session.open(Spec(browser=False)) as opened:
        yield opened


def programs(session: Session) -> dict[str, int]:
    """The name and the id of each program of the desktop."""
    found = {}
    for pid in descendants(session.info.pid):
        with contextlib.suppress(OSError):  # it has just ended
            found[Path(f"/proc/{pid}/comm").read_text().strip()] = pid
    return found


async def test_no_chromium_runs_and_the_screen_can_be_seen(session: Session) -> None:
    assert programs(session).keys() >= {"Xvnc", "openbox"}
    assert [name for name in programs(session) if "chrom" in name] == []
    cell = await session.execute("picture = pyautogui.screenshot()\nlog(picture.size, picture.getpixel((5, 5)))")
    assert cell.text == "(1440, 1000) (58, 95, 125)"
    settled = await session.execute("log(bool(screen.settle(5)))")
    assert (settled.status, settled.text) == ("ok", "True")
    javascript = await session.execute("console.log((await screen.settle(5000)).still)", language="javascript")
    assert (javascript.status, javascript.text) == ("ok", "true")


async def test_who_names_the_page_is_told_that_there_is_none(session: Session) -> None:
    python = await session.execute("await page.title()")
    assert (python.status, python.text.split("\n")[0]) == ("error", NOTICE)
    assert "name 'page' is not defined" in python.text
    own = await session.execute("page = 3\npage")
    assert (own.status, own.text) == ("ok", "3")
    javascript = await session.execute("await page.title()", language="javascript")
    assert (javascript.status, javascript.text.split("\n")[0]) == ("error", "ReferenceError: page is not defined")


async def test_a_display_that_is_killed_is_started_again(session: Session) -> None:
    await session.execute("x = 1")
    os.kill(programs(session)["Xvnc"], signal.SIGKILL)
    cell = await session.execute("log(x, pyautogui.size().width)")
    assert (cell.status, cell.text.endswith("1 1440")) == ("ok", True)
    assert "The display was started again; windows are closed." in cell.text
