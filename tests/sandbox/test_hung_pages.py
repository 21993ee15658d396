"""A page that answers nothing, and a language that connects to the browser only then: it gets the others soon, and is told."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.ladder import commands_of
from tests.pages import LANGUAGES, chromium_of, in_both, ok
from tests.serving import descendants
from tests.spare import Spare
from tests.waiting import GUARD_S, until

from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

OPEN = """
import os, urllib.request
direct = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
asked = urllib.request.Request(os.environ["CELLWRIGHT_CDP"] + "/json/new?{}", method="PUT")
direct.open(asked).read()
"""
LIST = "log(direct.open(os.environ['CELLWRIGHT_CDP'] + '/json/list').read().decode())"
ENDLESS = "data:text/html,<title>hung</title><script>setTimeout(()=>{for(;;);},50)</script>"
STILL = "data:text/html,<title>hung</title>"
PAGES: dict[Language, str] = {
    "python": "log([one.url for one in context.pages], page.url)",
    "javascript": "console.log(context.pages().map((one) => one.url()), page.url())",
}
TITLE: dict[Language, str] = {"python": "log(await page.title())", "javascript": "console.log(await page.title())"}
NEW: dict[Language, str] = {
    "python": "new = await context.new_page(); await new.goto('data:text/html,<title>new</title>'); log(await new.title())",
    "javascript": "globalThis.made = await context.newPage(); await made.goto('data:text/html,<title>new</title>'); "
    "console.log(await made.title())",
}
CLOSE_NEW: dict[Language, str] = {"python": "await new.close()", "javascript": "await made.close()"}
CLOSE = {
    "python": 'await (await browser.new_browser_cdp_session()).send("Target.closeTarget", {{"targetId": "{}"}})',
    "javascript": "await (await browser.newBrowserCDPSession()).send('Target.closeTarget', {{ targetId: '{}' }})",
}
SILENT = (
    "The page {} does not answer. Usually it shows a dialog that nobody has answered, its JavaScript computes without end, or its "
    "process was stopped. Until it answers it is not in `{}`; the others are, and `page` is {}. To close it: `{}`"
)
ASK: dict[Language, str] = {
    "python": "page.on('dialog', lambda it: held.append(it)); held = []; import asyncio\n"
    "asked = asyncio.ensure_future(page.evaluate('alert(1)'))\nwhile not held: await asyncio.sleep(0.01)",
    "javascript": "globalThis.held = []; const opened = new Promise((done) => page.on('dialog', (it) => done(held.push(it))));\n"
    "page.evaluate(() => alert(1)).catch(() => {}); await opened; undefined",
}
ANSWER: dict[Language, str] = {
    "python": "await held[0].accept(); log(await page.title())",
    "javascript": "await held[0].accept(); console.log(await page.title())",
}


@pytest_asyncio.fixture(loop_scope="module")
async def session(spare: Spare) -> AsyncIterator[Session]:
    """One each: a language connects only once."""
    async with spare.session() as session:
        yield session


async def soon(session: Session, language: Language, code: str, within_s: float) -> list[str]:
    """Execute a cell that must not wait until its deadline for a page that will not answer."""
    began = time.monotonic()
    said = await ok(session, language, code)
    assert time.monotonic() - began < within_s
    return said


def renderers(session: Session) -> set[int]:
    return {pid for pid, command in commands_of(descendants(session.info.pid)) if "--type=renderer" in command}


async def hang(session: Session, how: str) -> int:
    """Open a page that answers nothing; return the process that it is in."""
    before = renderers(session)
    await ok(session, "python", OPEN.format(ENDLESS if how == "computes" else STILL))
    await until(lambda: renderers(session) - before)
    (pid,) = renderers(session) - before
    if how == "is stopped":
        os.kill(pid, signal.SIGSTOP)
    else:
        await until(lambda: is_busy(pid))
    return pid


def is_busy(pid: int) -> bool:
    """Whether it has computed for longer than a page needs to appear."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK") > 0.5


@pytest.mark.parametrize("how", ["computes", "is stopped"])
async def test_a_language_that_connects_beside_a_page_that_answers_nothing_gets_the_others_and_can_close_it(
    session: Session, how: str
) -> None:
    url = ENDLESS if how == "computes" else STILL
    for language in LANGUAGES:
        hung = await hang(session, how)
        await ok(session, language, "1 + 1")
        told, pages = await soon(session, language, PAGES[language], GUARD_S)
        close = told.partition("To close it: `")[2].rstrip("`")
        target = re.findall("[0-9A-F]{32}", close)
        known = "context.pages" if language == "python" else "context.pages()"
        assert close == CLOSE[language].format(*target)
        assert told == SILENT.format(url, known, "about:blank", close)
        assert pages in {"['about:blank'] about:blank", "[ 'about:blank' ] about:blank"}
        assert await soon(session, language, "1 + 1", 4) == ["2"]
        assert await ok(session, language, NEW[language]) == ["new"]
        await ok(session, language, CLOSE_NEW[language])
        await ok(session, language, close)
        async with asyncio.timeout(GUARD_S):
            while hung in renderers(session) or "hung" in "".join(await ok(session, "python", LIST)):  # noqa: ASYNC110 - another process makes it so
                await asyncio.sleep(0.05)


DYING = """
import subprocess
dying = subprocess.getoutput("pgrep -f type=renderer").split()
for pid in dying: subprocess.run(["kill", "-STOP", pid], stderr=-3)
killer = subprocess.Popen(["sh", "-c", "sleep 0.1; kill -9 " + " ".join(dying)], stderr=-3)
"""


async def test_a_page_that_is_just_crashing_is_replaced_before_the_cell_begins(spare: Spare) -> None:
    await in_both(spare, check_just_crashing)


async def check_just_crashing(session: Session, language: Language) -> None:
    await ok(session, "python", f"await page.goto({STILL!r})")
    await ok(session, language, TITLE[language])
    await ok(session, "python", DYING)
    told, *title = await ok(session, language, TITLE[language])
    assert told.startswith("The page was closed or has crashed: `page` is now another page of the same browser.")
    assert title in ([""], [])


async def test_a_page_that_answers_again_is_there_again(session: Session) -> None:
    hung = await hang(session, "is stopped")
    for language in LANGUAGES:
        await ok(session, language, PAGES[language])
    os.kill(hung, signal.SIGCONT)
    wait = {
        "python": "while len(context.pages) < 2: await page.wait_for_timeout(20)\nlog(await context.pages[1].title())",
        "javascript": "while (context.pages().length < 2) await page.waitForTimeout(20)\n"
        "console.log(await context.pages()[1].title())",
    }
    for language in LANGUAGES:
        assert await ok(session, language, wait[language]) == ["hung"]


async def test_a_language_connects_while_the_other_has_a_dialog_open_and_leaves_it_there(spare: Spare) -> None:
    await in_both(spare, check_dialog_of_the_other)


async def check_dialog_of_the_other(session: Session, language: Language) -> None:
    other: Language = "javascript" if language == "python" else "python"
    await ok(session, other, ASK[other])
    said = await soon(session, language, NEW[language], GUARD_S)
    assert said[0].startswith(
        "The page about:blank does not answer. Usually it shows a dialog that nobody has answered, "
    )
    assert said[1:] == ["new"]
    assert await ok(session, other, ANSWER[other]) == [""]


async def test_a_page_whose_opener_answers_nothing_is_there(spare: Spare) -> None:
    await in_both(spare, check_silent_opener)


async def check_silent_opener(session: Session, language: Language) -> None:
    other: Language = "javascript" if language == "python" else "python"
    serve = (
        "import http.server, threading\n"
        "class Handler(http.server.SimpleHTTPRequestHandler):\n    def log_message(self, *rest): pass\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 8123), Handler)\n"
        "threading.Thread(target=server.serve_forever, daemon=True).start()"
    )
    opening = {
        "python": "await page.goto('http://127.0.0.1:8123/')\nasync with context.expect_page() as got:\n"
        "    await page.evaluate(\"open('http://localhost:8123/') && 1\")\nawait (await got.value).wait_for_load_state()\n",
        "javascript": "await page.goto('http://127.0.0.1:8123/'); const got = context.waitForEvent('page');\n"
        "await page.evaluate(() => open('http://localhost:8123/') && 1); await (await got).waitForLoadState();\n",
    }
    hanging = "await page.evaluate('setTimeout(() => { for (;;); }, 50) && 1')"
    await ok(session, "python", serve)
    await ok(session, other, opening[other] + hanging)
    await until(lambda: any(is_busy(pid) for pid in renderers(session)))
    assert (await soon(session, language, PAGES[language], GUARD_S))[-1] in {
        "['http://localhost:8123/'] http://localhost:8123/",
        "[ 'http://localhost:8123/' ] http://localhost:8123/",
    }


async def test_a_browser_that_hangs_when_it_is_first_named_is_told_of_and_costs_other_cells_nothing(
    session: Session,
) -> None:
    for language in LANGUAGES:
        await ok(session, language, "1 + 1")
        chromium, _ = chromium_of(session)
        os.kill(chromium, signal.SIGSTOP)
        async with asyncio.timeout(GUARD_S):
            cell = await session.execute("page", language=language, deadline_s=2 * GUARD_S)
        assert cell.text.startswith(
            "The browser cannot be reached (it did not answer within 5 s); `browser`, `context` and `page` are not there. "
            "If it goes on so, end its process: another one is started.\n"
        )
        assert await soon(session, language, "1 + 1", 4) == ["2"]
        os.kill(chromium, signal.SIGCONT)
        assert await ok(session, language, NEW[language]) == ["new"]


HANGING_SERVER = """
import asyncio
async def hang(reader, writer):
    try:
        await asyncio.sleep(600)
    finally:
        writer.close()
server = await asyncio.start_server(hang, "127.0.0.1", 8124)
await page.goto("data:text/html,<title>here</title><button>Go</button>")
"""
AWAITED = "http://127.0.0.1:8124/hang"
GO = {
    "by the code": f"await page.goto({AWAITED!r})",
    "by itself": f"await page.evaluate('setTimeout(() => {{ location = \"{AWAITED}\"; }}) && 1'); import time; time.sleep(60)",
}


async def test_a_page_whose_server_does_not_answer_is_said_to_load_and_not_to_hang(session: Session) -> None:
    await ok(session, "python", HANGING_SERVER)
    for how in GO.values():
        assert (await session.execute(how, deadline_s=2)).status == "timeout"
        assert await soon(session, "python", "log(1)", 1.9) == ["1"]  # to find that it does not answer takes 2 s
        (tree,) = await ok(session, "python", "log(ui.tree())")
        assert f"did not answer within 2 s: it is still loading {AWAITED}, whose server has not answered yet." in tree
        settled = await ok(session, "python", "it = screen.settle(1); log(it.reason, it.busy)")
        assert settled == ["timeout ('a page is loading',)"]
        assert await soon(session, "python", f"await page.goto({STILL!r}); log(await page.title())", 3) == ["hung"]
    await session.execute(GO["by the code"], deadline_s=1)
    told = (await ok(session, "javascript", PAGES["javascript"]))[0]
    assert told.startswith(
        f"A page is still loading {AWAITED}: its server has not answered yet. Until it does, it is not in `context.pages()`; "
    )
    await ok(session, "python", f"await page.goto({STILL!r})")
    await ok(session, "javascript", "while (context.pages().length < 2) await page.waitForTimeout(20)")
    await session.execute(GO["by the code"], deadline_s=1)
    (tree,) = await ok(session, "javascript", "console.log(String(await ui.tree()))")
    assert f"did not answer within 2 s: it is still loading {AWAITED}, whose server has not answered yet." in tree


async def test_a_page_that_computes_is_stopped_and_one_with_a_dialog_is_said_not_to_answer(session: Session) -> None:
    await ok(session, "python", "await page.evaluate('setTimeout(() => { for (;;); }, 50) && 1')")
    await until(lambda: any(is_busy(pid) for pid in renderers(session)))
    assert (await session.execute("await page.title()", deadline_s=1)).status == "timeout"
    (told, title) = await ok(session, "python", "log(await page.title())")
    assert "its JavaScript was computing. That was stopped" in told
    assert title == ""
    asked = "page.on('dialog', lambda it: None); await page.evaluate('setTimeout(() => alert(1)) && 1')"
    await ok(session, "python", asked)
    settled = await ok(session, "python", "screen.settle(3); it = screen.settle(1); log(it.reason, it.busy)")
    assert settled[-1] == "unresponsive ('a page does not answer',)"
    settled = await ok(session, "python", "it = screen.settle(0.5); log(it.reason, it.busy)")
    assert settled[-1] == "timeout ('a page does not answer',)"


HALTS = (
    "own = await context.new_cdp_session(page); await own.send('Debugger.enable'); await own.send('Debugger.pause')\n"
    "import asyncio; halted = asyncio.ensure_future(page.evaluate('debugger')); await asyncio.sleep(0.3)"
)
HANGS = "try: await page.goto('chrome://hang')\nexcept Exception: pass"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_page_that_a_debugger_has_halted_goes_on_after_a_cell_that_had_to_be_ended(
    session: Session, language: Language
) -> None:
    await ok(session, "python", f"await page.goto({STILL!r})")
    await ok(session, language, "page")
    await ok(session, "python", HALTS)
    assert (await session.execute(TITLE[language], language=language, deadline_s=1)).status == "timeout"
    told, *title = await soon(session, language, TITLE[language], 5)
    assert told.startswith(
        f"After the last cell the page {STILL} did not answer: a debugger had halted its JavaScript. That was stopped, so that the "
        "page can be used;"
    )
    assert title[0] == "hung"
    assert (await soon(session, "python", TITLE["python"], 2))[0] == "hung"


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_page_whose_process_hangs_is_closed_after_a_cell_that_had_to_be_ended(
    session: Session, language: Language
) -> None:
    await ok(session, "python", f"kept = await context.new_page(); await kept.goto({STILL!r})")
    await ok(session, language, "page")
    await ok(session, "python", HANGS)
    endless = {"python": "import time; time.sleep(60)", "javascript": "for (;;);"}[language]
    assert (await session.execute(endless, language=language, deadline_s=1)).status == "timeout"
    told, *moved, title = await soon(session, language, TITLE[language], 8)
    assert told.startswith(
        "After the last cell the page chrome://hang/ did not answer, and still did not after its JavaScript was told to stop. "
        "Usually its process was stopped, or hangs. So it was closed; the others are kept."
    )
    if language == "python":
        assert moved[0].startswith("The page was closed or has crashed: `page` is now another page")
    assert title == "hung"
    assert (await soon(session, "python", "log([one.url for one in context.pages])", 2))[-1] == f"[{STILL!r}]"


async def test_a_dialog_halts_the_pages_of_its_process_and_none_of_them_is_closed(session: Session) -> None:
    await ok(
        session, "python", "async with context.expect_page() as got: await page.evaluate(\"open('about:blank') && 1\")"
    )
    await ok(session, "python", "page.on('dialog', lambda it: held.append(it)); held = []; await got.value")
    await ok(
        session,
        "python",
        "await page.evaluate('setTimeout(() => alert(1)) && 1')\nwhile not held: await page.context.cookies()",
    )
    assert (await session.execute("for (;;);", language="javascript", deadline_s=1)).status == "timeout"
    (told,) = await soon(session, "javascript", "undefined", 4)
    assert told == (
        "After the last cell the page about:blank did not answer. Usually another page of its process shows a dialog, which halts "
        "them all: answer that."
    )
    answer = "await held[0].accept(); log(len(context.pages), await (await got.value).title())"
    assert await soon(session, "python", answer, 4) == ["2 "]


async def test_a_cell_that_waits_until_it_is_known_what_still_answers_is_told_that_nothing_was_starting(
    session: Session,
) -> None:
    await ok(session, "python", "1 + 1")
    chromium, _ = chromium_of(session)
    os.kill(chromium, signal.SIGSTOP)
    try:
        assert (await session.execute("import time; time.sleep(60)", deadline_s=1)).status == "timeout"
        cell = await session.execute("log(1)", deadline_s=2)
        assert cell.status == "timeout"
        assert cell.text.startswith(
            "The code was not executed: the cell before it had been ended, and until this one had to"
        )
    finally:
        os.kill(chromium, signal.SIGCONT)
    assert (await ok(session, "python", "log(1)"))[-1] == "1"


async def test_a_window_manager_that_is_stopped_is_started_again_after_a_cell_that_ended_well(session: Session) -> None:
    manager = min(pid for pid, command in commands_of(descendants(session.info.pid)) if "openbox" in command)
    os.kill(manager, signal.SIGSTOP)
    await ok(session, "python", "pyautogui.click(700, 500)")
    told, done = await soon(session, "python", "import tkinter; w = tkinter.Tk(); w.wait_visibility(); log('there')", 4)
    assert told.startswith(
        "The window manager had been stopped by a signal, so that no click arrived anywhere, and was ended. "
    )
    assert done == "there"


async def test_a_frame_that_computes_without_end_is_named_and_the_pages_own_elements_are_listed(
    session: Session,
) -> None:
    serve = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *rest): pass
    def do_GET(self):
        inner = b"<p>inner</p><script>setTimeout(()=>{for(;;);},300)</script>"
        outer = b"<button>Own</button><iframe src='http://localhost:8125/inner'></iframe>"
        self.send_response(200); self.send_header("Content-Type", "text/html"); self.end_headers()
        self.wfile.write(inner if self.path == "/inner" else outer)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8125), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"""
    await ok(session, "python", serve)
    await ok(session, "javascript", PAGES["javascript"])
    await ok(session, "python", "await page.goto('http://127.0.0.1:8125/')")
    await until(lambda: any(is_busy(pid) for pid in renderers(session)))
    looks: dict[Language, str] = {
        "python": "log(ui.tree())",
        "javascript": "console.log(String(await ui.tree()))",
    }
    for language, look in looks.items():
        (said,) = await ok(session, language, look)
        assert (
            "The page http://127.0.0.1:8125/ has a frame that does not answer, http://localhost:8125/inner: it computes, or its "
            "process is stopped. Only the page's own elements are listed, and none of its frames'."
        ) in said
        assert '- button "Own"' in said
