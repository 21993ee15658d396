"""Downloads are found in `~/Downloads` under their own names, whoever started them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

_HELP = """
import os, pathlib, base64
def link(name, text):
    return f'<a style="position:fixed;inset:0;background:#eee" download="{name}" href="data:text/csv,{text}">get</a>'
async def arrived(name, text):
    path = pathlib.Path.home() / 'Downloads' / name
    for _ in range(300):
        if path.exists() and path.read_text() == text:
            return True
        await asyncio.sleep(0.02)
    return sorted(os.listdir(path.parent)) if path.parent.exists() else 'no folder'
import asyncio
"""
_CLICK = "pyautogui.click(700, 500)\n"
_OPEN = "await page.set_content(link('{0}', '{1}'))\nawait page.screenshot()\n"


@pytest_asyncio.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session.open(runs=tmp_path) as opened:
        await opened.execute(_HELP)
        yield opened


async def test_a_click_of_the_pointer_and_one_of_playwright_end_in_the_same_folder(session: Session) -> None:
    assert await _said(session, _OPEN.format("a.csv", "one") + _CLICK + "log(await arrived('a.csv', 'one'))") == "True"
    await session.execute(
        _OPEN.format("b.csv", "two")
        + "async with page.expect_download() as started:\n    await page.click('a')\n"
        + "download = await started.value"
    )
    assert await _said(session, "log(pathlib.Path(await download.path()).read_text())") == "two"
    assert await _said(session, "await download.save_as('kept.csv'); log(open('kept.csv').read())") == "two"
    assert await _said(session, "log(await arrived('b.csv', 'two'))") == "True"
    await session.execute("await download.delete()")
    assert await _said(session, "log(await arrived('b.csv', 'two'))") == "True"


async def test_a_name_that_is_taken_gets_a_number(session: Session) -> None:
    for text in ("one", "two", "three"):
        await session.execute(_OPEN.format("same.csv", text) + _CLICK)
        name = {"one": "same.csv", "two": "same (1).csv", "three": "same (2).csv"}[text]
        assert await _said(session, f"log(await arrived({name!r}, {text!r}))") == "True"


async def test_without_playwright_and_after_its_end_chromium_saves_by_itself(session: Session) -> None:
    page = "data:text/html,<script>onclick=()=>{a=document.createElement('a');a.href='data:text/csv,x';a.download='%s';a.click()}</script>"
    visit = "pyautogui.hotkey('ctrl', 'l'); pyautogui.write({0!r}); pyautogui.press('enter'); time.sleep(1)\n"
    await session.execute(visit.format(page % "early.csv") + _CLICK)
    assert await _said(session, "log(await arrived('early.csv', 'x'))") == "True"
    await session.execute("page")
    await session.restart("python")
    await session.execute(_HELP)
    await session.execute(visit.format(page % "late.csv") + _CLICK)
    assert await _said(session, "log(await arrived('late.csv', 'x'))") == "True"


async def test_with_both_languages_attached_each_finds_its_download(session: Session) -> None:
    await session.execute("page")
    await session.execute("await page.title()", language="javascript")
    await session.execute(_OPEN.format("both.csv", "yes"))
    get = "async with page.expect_download() as d:\n    await page.click('a')\n"
    assert await _said(session, get + "log(open(await (await d.value).path()).read())") == "yes"
    code = """
        const [download] = await Promise.all([page.waitForEvent('download'), page.click('a')]);
        console.log(require('fs').readFileSync(await download.path(), 'utf8'))
    """
    cell = await session.execute(code, language="javascript")
    assert cell.text == "yes"
    assert await _said(session, "log(await arrived('both (1).csv', 'yes'))") == "True"


async def _said(session: Session, code: str) -> str:
    return (await session.execute(code)).text
