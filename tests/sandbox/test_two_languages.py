"""One browser, two languages, in a real sandbox: what one opens, sets or closes, the other finds."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from cellwright.session import Session
from cellwright_kernel.wire import Language, Text

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

PAGE = "data:text/html,<title>T</title><button onclick='document.title=%22clicked%22'>b</button>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session() -> AsyncIterator[Session]:
    async with Session.open() as session:
        yield session


async def said(
    session: Session, language: Language, code: str, status: str = "ok", deadline_s: float = 20
) -> list[str]:
    """Execute a cell that must end so; return its texts, those of ours marked."""
    cell = await session.execute(code, language=language, deadline_s=deadline_s)
    assert cell.status == status, cell.text
    return [("! " if one.source == "notice" else "") + one.text for one in cell.outputs if isinstance(one, Text)]


async def js(session: Session, code: str, status: str = "ok", deadline_s: float = 20) -> list[str]:
    return await said(session, "javascript", code, status, deadline_s)


async def py(session: Session, code: str, status: str = "ok") -> list[str]:
    return await said(session, "python", code, status)


async def test_the_page_has_the_size_of_its_window(session: Session) -> None:
    code = "console.log(await page.evaluate(() => `${innerWidth}x${innerHeight}`))"
    assert await js(session, code) == ["1440x900"]


async def test_screenshots_are_pictures(session: Session) -> None:
    code = (
        "const shot = await page.screenshot(); display(shot); display(shot.toString('base64')); "
        "display(page.screenshot({ type: 'jpeg' })); undefined"
    )
    cell = await session.execute(code, language="javascript")
    found = [(image.media_type, image.width, image.height) for image in cell.images]
    assert found == [("image/png", 1440, 900)] * 2 + [("image/jpeg", 1440, 900)]


async def test_a_click_of_one_is_seen_by_the_other(session: Session) -> None:
    await js(session, f"await page.goto({PAGE!r}); await page.click('button')")
    assert await py(session, "log(await page.title())") == ["clicked"]
    await py(session, "await page.evaluate('document.title = \"back\"')")
    assert await js(session, "await page.title()") == ["'back'"]


async def test_files_are_shared(session: Session) -> None:
    await py(session, "open('shared.txt', 'w').write('from python')")
    assert await js(session, "console.log(require('fs').readFileSync('shared.txt', 'utf8'))") == ["from python"]


async def test_playwrights_objects_and_errors_are_brief(session: Session) -> None:
    assert await js(session, "await page.goto('about:blank'); page") == ["Page { url: 'about:blank' }"]
    (error,) = await js(session, "\nawait page.click('#nope', { timeout: 100 })", status="error")
    assert error == (
        "TimeoutError: page.click: Timeout 100ms exceeded.\nCall log:\n  - waiting for locator('#nope')\n\n    at <cell 10>:2:12"
    )


async def test_a_dialog_that_nobody_listens_for_is_dismissed_and_told_once(session: Session) -> None:
    told = "! An alert() dialog of the page was dismissed: {}. To answer one yourself, register page.on('dialog', handler) before it opens."
    assert await js(session, "await page.evaluate(() => alert('js'))") == [told.format("'js'")]
    assert await py(session, "await page.evaluate('alert(1)')") == [told.format("'1'")]


async def test_a_dialog_is_answered_by_the_language_that_listens(session: Session) -> None:
    listen = "page.once('dialog', (d) => d.accept('mine')); console.log(await page.evaluate(() => prompt('name?')))"
    assert await js(session, listen) == ["mine"]
    listen = "page.once('dialog', lambda d: d.accept('yours'))\nlog(await page.evaluate('prompt(1)'))"
    assert await py(session, listen) == ["yours"]


async def test_what_a_page_prints_later_belongs_to_the_cell_that_runs(session: Session) -> None:
    await js(session, "page.on('console', (m) => console.log('page:', m.text())); undefined")
    assert await js(session, "await page.evaluate(() => console.log('hi'))") == ["page: hi"]


async def test_after_an_interrupt_the_page_goes_on(session: Session) -> None:
    code = "globalThis.rounds = 0; for (;;) { await page.waitForTimeout(20); rounds++ }"
    assert "variables set so far are kept" in (await js(session, code, "timeout", deadline_s=1))[-1]
    assert await js(session, "const r = rounds; await page.waitForTimeout(200); rounds - r") == ["0"]


async def test_a_closed_page_is_replaced_and_told(session: Session) -> None:
    await js(session, "await page.close()")
    told = "! The page was closed or has crashed: `page` is now another page of the same browser."
    assert await js(session, "page.url()") == [told, "'about:blank'"]


async def test_a_closed_connection_is_made_again_and_told(session: Session) -> None:
    await js(session, "await browser.close()")
    told = "! The browser was closed or restarted: `browser`, `context` and `page` are new objects."
    assert await js(session, "console.log(page.isClosed())") == [told, "false"]


async def test_a_killed_browser_is_there_again_for_both(session: Session) -> None:
    kill = "import subprocess; subprocess.run(['pkill', '-9', '-f', 'remote-debugging-port'], check=False); None"
    await py(session, kill)
    told = await js(session, "await page.evaluate(() => 1 + 1)")
    assert told[-1] == "2"
    assert any("browser" in one for one in told[:-1])
    assert (await py(session, "log(await page.evaluate('2 + 2'))"))[-1] == "4"


async def test_a_name_of_the_models_own_stays_its_own(session: Session) -> None:
    await js(session, "const page = 'mine'")
    assert await js(session, "[page, typeof browser.contexts]") == ["[ 'mine', 'function' ]"]


async def test_fetch_goes_through_the_proxy_and_nowhere_else(session: Session) -> None:
    assert await js(session, "(await fetch('http://192.0.2.1/')).status") == ["403"]
    error, notice = await js(session, "await fetch('https://192.0.2.1/')", "error")
    assert error.startswith("TypeError: fetch failed")
    assert notice.startswith("! 192.0.2.1:443 is not on the allow-list of this sandbox. ")
    (error,) = await js(
        session,
        "await import('node:net').then(({ connect }) => new Promise((_, no) => "
        "connect(80, '192.0.2.1').on('error', no)))",
        "error",
    )
    assert "ENETUNREACH" in error


async def test_a_restart_brings_a_new_kernel_on_the_same_page(session: Session) -> None:
    await js(session, "let before = 1; await context.pages()[0].goto('about:blank#kept')")
    await session.restart("javascript")
    told = await js(session, "[typeof before, page.url()]")
    assert told[-1] == "[ 'undefined', 'about:blank#kept' ]"
    assert "restarted on request" in told[0]


@pytest.mark.parametrize("language", ["python", "javascript"])
async def test_a_page_that_computes_without_end_is_stopped_with_the_cell_that_waits_for_it(
    session: Session, language: Language
) -> None:
    await js(session, "await page.goto('data:text/html,<title>T</title>')")
    busy = await session.execute("await page.evaluate('for(;;);')", language=language, deadline_s=1.5)
    assert busy.status == "timeout"
    show = {"python": "log(await page.title())", "javascript": "console.log(await page.title())"}
    stopped, title = await said(session, language, show[language], deadline_s=5)
    assert stopped == (
        "! After the last cell the page data:text/html,<title>T</title> did not answer: its JavaScript was computing. "
        "That was stopped, so that the page can be used; the page is as its JavaScript left it."
    )
    assert title == "T"
