"""`screen` on a real desktop: why a wait for it ended, what changed on it, and what is written on it; in both languages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.waiting import GUARD_S

from cellwright.session import Session
from cellwright_kernel.wire import Cell, Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

_PAGE = """<!doctype html><meta charset=utf-8><style>body{font:16px 'DejaVu Sans';background:#f6f7f9}
button{background:#1f6fb2;color:white;border:0;border-radius:5px;padding:9px 16px;font-size:15px}</style>
<h2>Open items</h2><p>Receipts older than ninety days</p><button>Submit</button><input id=i value=tickets>"""
_ANIMATED = """() => { const box = document.createElement('div');
box.style.cssText = 'position:fixed;left:400px;top:300px;width:80px;height:80px;background:red'; document.body.append(box);
box.animate([{transform:'none'},{transform:'translateX(300px)'}], {duration:1000}).onfinish = () => window.ended = Date.now() }"""
_PAINTED = """() => { const canvas = document.createElement('canvas'); document.body.append(canvas);
const to = canvas.getContext('2d'), began = performance.now(); let n = 0;
const paint = () => { to.fillStyle = n++ % 2 ? 'red' : 'blue'; to.fillRect(0, 0, 200, 100);
if (performance.now() - began < 1000) requestAnimationFrame(paint); else window.ended = Date.now() }; paint() }"""
_SERVER = """
import http.server, threading
class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/slow':
            time.sleep(1.4)
        body = b'<h1>Ready</h1><script>onclick = async () => { await fetch("/slow"); document.body.style.background = "teal" }</script>'
        self.send_response(200); self.send_header('Content-Type', 'text/html'); self.end_headers(); self.wfile.write(body)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Slow)
threading.Thread(target=server.serve_forever, daemon=True).start()
await page.goto(f'http://127.0.0.1:{server.server_port}/')
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    async with Session.open(runs=tmp_path_factory.mktemp("runs")) as opened:
        yield opened


async def _said(session: Session, code: str, language: Language = "python") -> list[str]:
    cell = await session.execute(code, language=language)
    assert cell.status == "ok", cell.text
    return cell.text.splitlines()


async def _shown(session: Session) -> None:
    await _said(session, f"await page.set_content({_PAGE!r})\nscreen.settle()\nlog(1)")


async def test_a_still_screen_settles_at_once(session: Session) -> None:
    await _shown(session)
    code = (
        "for _ in range(9):\n    s = screen.settle()\n    log(f'{s.reason} {s.busy} {bool(s)} {s.waited_s} {s.drawn}')"
    )
    said = [line.split(" ", 4) for line in await _said(session, code)]
    assert [line[:3] for line in said] == [["still", "()", "True"]] * 9
    assert "None" in [line[4] for line in said]  # Chromium may draw a page once more when it has been still for a while
    assert sorted(float(line[3]) for line in said)[4] < 0.5


@pytest.mark.parametrize("moving", [_ANIMATED, _PAINTED], ids=["animation", "canvas"])
async def test_a_page_that_moves_for_a_second_is_waited_for_and_not_much_longer(session: Session, moving: str) -> None:
    late: list[int] = []
    for _ in range(3):
        await _shown(session)
        code = f"await page.evaluate('''{moving}''')\ns = screen.settle()\nnow = time.time() * 1000\n"
        code += "log(s.reason); log(round(now - await page.evaluate('window.ended ?? 1e15')))"
        reason, after_ms = await _said(session, code)
        assert reason == "still"
        late.append(int(after_ms))
    assert min(late) <= 100
    assert all(ms >= 0 for ms in late)


async def test_a_blinking_caret_keeps_nobody_waiting(session: Session) -> None:
    await _shown(session)
    said = await _said(session, "await page.focus('#i')\nfor _ in range(12): log(screen.settle(3).reason)")
    assert said == ["still"] * 12


async def test_a_screen_that_never_rests_is_told_with_the_place(session: Session) -> None:
    await _shown(session)
    blink = (
        "setInterval(() => document.querySelector('button').style.background = n++ % 2 ? 'red' : 'blue', 16); var n = 0"
    )
    said = await _said(
        session, f'await page.evaluate("{blink}")\ns = screen.settle(0.6)\nlog(s.reason); log(s.drawn); log(bool(s))'
    )
    assert (said[0], said[2]) == ("timeout", "False")
    _, top, width, height = (int(side) for side in re.findall(r"\d+", said[1]))
    assert (top > 100, width < 200, height < 100) == (True, True, True)


async def test_a_request_that_a_click_began_is_waited_for(session: Session) -> None:
    await _said(session, _SERVER + "screen.settle()\nlog(1)")
    code = "before = screen.shot()\npyautogui.click(700, 500)\ns = screen.settle()\nlog(s.reason)\n"
    code += "log(screen.shot().getpixel((700, 700)))\nlog(s.waited_s > 1.2)"
    assert await _said(session, code) == ["still", "(0, 128, 128)", "True"]
    said = await _said(session, "pyautogui.click(700, 500)\ns = screen.settle(1)\nlog(s.reason); log(s.busy)")
    assert said == ["timeout", "('1 request',)"]


async def test_a_frame_out_of_view_is_not_waited_for(session: Session) -> None:
    code = _SERVER + (
        "frame = f'http://localhost:{server.server_port}/'\n"
        'await page.evaluate("""async frame => { document.body.insertAdjacentHTML(\'beforeend\','
        " `<div style='height:5000px'></div><iframe src='${frame}'></iframe>`);"
        ' await new Promise(done => document.querySelector(\'iframe\').onload = done) }""", frame)\n'
        "s = screen.settle()\nlog(s.reason); log(s.busy); log(len(page.frames))"
    )
    assert await _said(session, code) == ["still", "()", "2"]


async def test_a_page_that_computes_is_told_of(session: Session) -> None:
    await _shown(session)
    busy = "setTimeout(() => { const end = Date.now() + 2500; while (Date.now() < end); }, 0)"
    said = await _said(
        session, f'await page.evaluate("() => {{ {busy} }}")\ns = screen.settle(5)\nlog(s.reason); log(s.busy)'
    )
    assert said == ["unresponsive", "('a page does not answer',)"]
    await _said(session, "screen.settle(5)\nlog(1)")


async def test_playwrights_handlers_go_on_while_a_cell_waits_for_the_screen(session: Session) -> None:
    await _said(session, _SERVER + "screen.settle()\nlog(1)")
    code = """
async def answer(route):
    await route.fulfill(body='handled')
await page.route('**/slow', answer)
pyautogui.click(700, 500)
s = screen.settle()
log(s.reason); log(screen.shot().getpixel((700, 700)))
await page.unroute('**/slow')"""
    assert await _said(session, code) == ["still", "(0, 128, 128)"]


async def test_what_changed_since_the_last_look_is_a_box(session: Session) -> None:
    await _shown(session)
    code = """
shown = pyautogui.screenshot()
log(screen.changed())
await page.evaluate("document.querySelector('button').style.background = 'red'")
screen.settle()
found = screen.changed()
log(bool(found)); log(found.box)
log(await screen.changed())"""
    same, differs, box, again = await _said(session, code)
    assert (same, differs, again) == ("Change(box=None)", "True", "Change(box=None)")
    _, _, width, height = (int(side) for side in re.findall(r"\d+", box))
    assert (50 < width < 130, 20 < height < 60) == (True, True)


async def test_a_button_is_found_by_its_text_and_can_be_clicked(session: Session) -> None:
    await _shown(session)
    code = """
await page.evaluate("() => { document.querySelector('button').onclick = () => setTimeout(() => document.querySelector('h2').textContent = 'All done', 700) }")
pyautogui.click(screen.find_text('submit')[0].center)
match = screen.wait_text('all DONE', timeout=30)
log(match.text); log(match.center[0] < 200); log(match.confidence > 0.5)
log(screen.find_text('receipts older than')[0].text)
log(screen.find_text('Nowhere'))"""
    assert await _said(session, code) == ["All done", "True", "True", "Receipts older than", "[]"]


@pytest.mark.parametrize(("px", "style"), [(15, ""), (32, "bold"), (44, "bold"), (64, ""), (80, "bold")])
async def test_a_headline_is_found_once_beside_small_text(session: Session, px: int, style: str) -> None:
    page = (
        f"<p style='font: {style} {px}px sans-serif; margin: 30px'>Order now</p>"
        "<p style='font: 15px sans-serif'>Delivered within a week, without any costs.</p>"
    )
    await session.execute(f"await page.set_content({page!r})\nscreen.settle()")
    headline, small = "len(screen.find_text('order now'))", "len(screen.find_text('within a week'))"
    assert await _said(session, f"log({headline}, {small})") == ["1 1"]


async def test_a_text_that_does_not_come_is_told_with_what_is_most_alike(session: Session) -> None:
    await _shown(session)
    await _said(session, "log(len(screen.find_text('Submit')))")
    cell = await session.execute("screen.wait_text('Open itens', timeout=0.5)")
    assert cell.status == "error"
    assert "'Open itens' did not appear on the screen within 0.5 s" in cell.text
    assert "Most alike: 'Open items'" in cell.text


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "log('on')\nscreen.wait_text('Nowhere', timeout=60)"),
        ("python", "log('on')\nwhile True: screen.settle(60) and screen.changed()"),
        ("javascript", "console.log('on'); await screen.waitText('Nowhere', 60_000)"),
    ],
)
async def test_a_wait_can_be_interrupted_and_the_next_call_works(
    session: Session, language: Language, code: str
) -> None:
    await _shown(session)
    begun = asyncio.Event()
    running = asyncio.ensure_future(session.execute(code, language=language, on_event=lambda _: begun.set()))
    await asyncio.wait_for(begun.wait(), GUARD_S)
    await session.interrupt()
    async with asyncio.timeout(GUARD_S):  # the waits themselves last a minute
        cell: Cell = await running
    assert cell.status == "interrupted"
    assert await _said(session, "log(len(screen.find_text('Submit'))); log(screen.settle().reason)") == ["1", "still"]


async def test_javascript_has_the_same_in_its_own_forms(session: Session) -> None:
    await _shown(session)
    code = """
const settled = await screen.settle(3000);
const [match] = await screen.findText('Submit');
const before = await screen.changed();
await page.evaluate(() => { document.querySelector('h2').textContent = 'Sent' });
await screen.settle();
const after = await screen.changed();
console.log(settled.still, settled.reason, match.text, match.box.width > 30, before, after.box.x < 50);
console.log((await screen.waitText('sent', 8000)).text);
display(await screen.shot());
display(await screen.zoom({ x: 10, y: 20, width: 200, height: 100 }, 3));"""
    cell = await session.execute(code, language="javascript")
    assert (cell.status, cell.text) == ("ok", "true still Submit true null true\nSent")
    assert [(image.width, image.height) for image in cell.images] == [(1440, 1000), (600, 300)]
    wrong = await session.execute("await screen.shot([0, 0, 5000, 10])", language="javascript")
    assert (wrong.status, "is not within the desktop, which is 1440x1000 pixels" in wrong.text) == ("error", True)


_ENDLESS = """() => { const box = document.createElement('div'); box.style.cssText = 'width:80px;height:80px;background:red';
document.body.append(box); box.animate([{transform:'none'},{transform:'translateX(300px)'}], {duration:500, iterations:Infinity}) }"""


async def test_waits_for_the_screen_run_one_beside_the_other(session: Session) -> None:
    """Twelve of a second each take less than twelve seconds together; how much less is the machine's business."""
    await _shown(session)
    code = (
        f"await page.evaluate({_ENDLESS!r})\nfrom concurrent.futures import ThreadPoolExecutor\nbegan = time.monotonic()\n"
        "with ThreadPoolExecutor(12) as pool: many = {one.reason for one in pool.map(screen.settle, [1] * 12)}\n"
        "log(time.monotonic() - began < 12, many)"
    )
    assert await _said(session, code) == ["True {'timeout'}"]
    code = "const three = await Promise.allSettled([1, 2, 3].map(() => screen.settle(1000)));\n"
    code += "console.log(three.map(one => one.value?.reason ?? one.reason.message).join());"
    assert await _said(session, code, "javascript") == ["timeout,timeout,timeout"]
    await _shown(session)
    assert await _said(session, "log(screen.settle().reason)") == ["still"]


async def test_a_page_that_crashed_is_not_waited_for_until_it_is_loaded_again(session: Session) -> None:
    await _shown(session)
    code = """
other = await context.new_page()
session = await context.new_cdp_session(other)
target = (await session.send('Target.getTargetInfo'))['targetInfo']['targetId']
screen.settle()
try: await other.goto('chrome://crash', timeout=5000)
except Exception: log('crashed')
fresh = await context.new_page()
await fresh.set_content('<h1>Fresh</h1>')
log([screen.settle().reason for _ in range(3)])
await fresh.close()
"""
    assert await _said(session, code + "await page.bring_to_front()") == ["crashed", "['still', 'still', 'still']"]
    code = """
import json, os
from websockets.sync.client import connect  # Playwright does nothing more with a page that crashed
with connect(os.environ['CELLWRIGHT_CDP'].replace('http', 'ws') + '/devtools/page/' + target, proxy=None) as devtools:
    def ask(method, **parameters):
        devtools.send(json.dumps({'id': 1, 'method': method, 'params': parameters}))
        return devtools.recv(5)
    ask('Page.navigate', url='data:text/html,<h1>Again</h1>')
    ask('Page.bringToFront')
    log(screen.settle().reason)
    ask('Runtime.evaluate', expression='setTimeout(() => { const end = Date.now() + 2500; while (Date.now() < end); }, 0)')
    log(screen.settle(5).reason)
    ask('Page.close')
log(screen.settle().reason)"""
    assert await _said(session, code) == ["still", "unresponsive", "still"]


async def test_values_that_are_none_are_told_in_the_languages_own_units(session: Session) -> None:
    for code, told in (
        ("screen.zoom((0, 0, 9, 9), 'x')", "TypeError: factor is a number above 0, such as 2; it was 'x'."),
        (
            "screen.zoom((0, 0, 9, 9), float('nan'))",
            "ValueError: factor is a number above 0, at most 8192; it was nan.",
        ),
        (
            "screen.zoom((0, 0, 9, 9), float('inf'))",
            "ValueError: factor is a number above 0, at most 8192; it was inf.",
        ),
        ("screen.settle(10**400)", "ValueError: timeout is in seconds, from 0 to 600; it was 1"),
        ("screen.find_text(None)", "TypeError: The text to look for is a str; it was None."),
    ):
        cell = await session.execute(code)
        assert (cell.status, told in cell.text) == ("error", True), cell.text
    for code, told in (
        ("settle({ timeout: NaN })", "RangeError: timeout is in milliseconds, from 0 to 600000; it was NaN."),
        ("settle({ timeout: 'x' })", "RangeError: timeout is in milliseconds, from 0 to 600000; it was 'x'."),
        ("waitText('x', -1)", "RangeError: timeout is in milliseconds, from 0 to 600000; it was -1."),
        ("zoom([0, 0, 9, 9], NaN)", "RangeError: factor is a number above 0, such as 2; it was NaN."),
        ("findText()", "TypeError: The text to look for is a string; it was undefined."),
    ):
        cell = await session.execute(f"await screen.{code}", language="javascript")
        assert (cell.status, told in cell.text) == ("error", True), cell.text


async def test_nobody_reads_until_something_is_to_be_read(tmp_path: Path) -> None:
    code = "log(sum(b'screen.reader' in open(f'/proc/{p}/cmdline', 'rb').read() for p in os.listdir('/proc') if p.isdigit()))"
    async with Session.open(runs=tmp_path) as session:
        assert await _said(session, f"import os\nscreen.settle()\n{code}") == ["0"]
        assert await _said(session, f"found = screen.find_text('x')\n{code}") == ["1"]
        await session.restart("python")
        assert (await _said(session, f"import os\n{code}"))[-1] == "0"
