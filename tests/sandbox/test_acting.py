"""PyAutoGUI's functions do on the desktop what they are documented to do: `acting.jsonl` has a row for each; and a page sees it so too.

A row has what it `does`, the `code` of a cell, what the cell `says` (a line each, or what the lines must contain), its `status` if that is
not ok, and what a window `heard`, where that is told: every event that the X server sent it while the cell ran.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.desk import TARGETS

from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("acting.jsonl").read_text(encoding="utf-8").splitlines()
]

_HELPERS = """
import pathlib, random, subprocess, sys, threading
from PIL import Image
from Xlib import X
from Xlib.display import Display
from Xlib.protocol.event import ClientMessage

own = Display()
recorder = subprocess.Popen([sys.executable, 'heard.py', 'heard.txt'])
asked = 0

def wait_for(fact, limit_s=20):
    end = time.monotonic() + limit_s
    while not (found := fact()) and time.monotonic() < end: time.sleep(0.005)
    assert found, 'it did not come'
    return found

def window_named(name):
    listed = own.screen().root.get_full_property(own.intern_atom('_NET_CLIENT_LIST'), X.AnyPropertyType)
    windows = [own.create_resource_object('window', number) for number in (listed.value if listed else [])]
    return next((window for window in windows if window.get_wm_name() == name), None)

def is_in_front(name):
    active = own.screen().root.get_full_property(own.intern_atom('_NET_ACTIVE_WINDOW'), X.AnyPropertyType)
    window = window_named(name)
    return window is not None and active is not None and active.value[0] == window.id and own.get_input_focus().focus == window

def heard():
    global asked
    asked += 1
    window = window_named('heard')
    window.send_event(ClientMessage(window=window, client_type=own.intern_atom('WRITE_DOWN'), data=(32, [asked, 0, 0, 0, 0])))
    own.flush()
    file = pathlib.Path('heard.txt')
    wait_for(lambda: file.exists() and file.read_text().split('\\n')[0] == str(asked))
    return file.read_text().split('\\n')[1:]

def noise(name, seed):
    Image.frombytes('RGB', (20, 20), random.Random(seed).randbytes(1200)).save(name)

def show_mark(x, y):
    noise('mark.png', 1)
    picture = Image.open('mark.png')
    window = window_named('heard')
    context = window.create_gc()
    window.put_pil_image(context, x, y, picture)
    own.sync()

def others_move(x, y):
    own.screen().root.warp_pointer(x, y)
    own.sync()

def answered(box, text, title, *words, typed=None, key='enter'):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(box(text, title, *words)))
    thread.start()
    wait_for(lambda: is_in_front(title))
    screen.settle()
    if typed: pyautogui.write(typed)
    pyautogui.press(key)
    thread.join(5)
    wait_for(lambda: is_in_front('heard'))
    return answers[0]

wait_for(lambda: is_in_front('heard'))
pyautogui.moveTo(300, 300)
"""


_PAGE = """<!doctype html><title>heard</title><body style="margin:0;height:3000px">
<input id=i value="one two three" style="position:absolute;left:20px;top:20px;width:300px">
<input id=r type=range min=0 max=100 value=0 style="position:absolute;left:20px;top:60px;width:200px">
<div id=d draggable=true style="position:absolute;left:20px;top:120px;width:80px;height:40px;background:tan">drag</div>
<div id=z style="position:absolute;left:300px;top:120px;width:120px;height:80px;background:teal">drop</div>
<p id=p style="position:absolute;left:20px;top:220px">Some words here</p>
<script>heard = [];
const held = e => (e.ctrlKey ? ' ctrl' : '') + (e.shiftKey ? ' shift' : '') + (e.altKey ? ' alt' : '');
for (const kind of ['click', 'auxclick', 'contextmenu'])
  addEventListener(kind, e => { heard.push(`${kind} ${e.button} x${e.detail}${held(e)}`); if (kind != 'click') e.preventDefault() }, true);
addEventListener('wheel', e => heard.push(`wheel ${Math.sign(e.deltaX)},${Math.sign(e.deltaY)}`));
addEventListener('keydown', e => heard.push(`key ${e.key}${held(e)}`));
d.ondragstart = e => { e.dataTransfer.setData('text/plain', 'thing'); heard.push('dragstart') };
z.ondragover = e => e.preventDefault();
z.ondrop = e => { e.preventDefault(); heard.push('drop ' + e.dataTransfer.getData('text/plain')) };
</script>"""
_PAGE_HELPERS = """
from playwright.async_api import TimeoutError as Late
await page.set_content(PAGE)
screen.settle()
left, top = await page.evaluate('[screenX + (outerWidth - innerWidth) / 2, screenY + outerHeight - innerHeight]')
async def middle(selector):
    box = await page.locator(selector).bounding_box()
    return left + box['x'] + box['width'] / 2, top + box['y'] + box['height'] / 2
async def heard(fact):
    try: await page.wait_for_function(fact, timeout=20_000)
    except Late: pass
    return ' | '.join(await page.evaluate('heard.splice(0)'))
words = await middle('#p')
# half a second apart, clicks are not one double click
time.sleep(0.5); pyautogui.click(words); await heard('heard.length == 1'); time.sleep(0.6)
"""
_ON_PAGE = {
    "a click": ("pyautogui.click(words)", 1, "click 0 x1"),
    "a double click": ("pyautogui.doubleClick(words)", 2, "click 0 x1 | click 0 x2"),
    "a triple click": ("pyautogui.tripleClick(words)", 3, "click 0 x1 | click 0 x2 | click 0 x3"),
    "a right click": ("pyautogui.rightClick(words)", 2, "contextmenu 2 x0 | auxclick 2 x1"),
    "a middle click": ("pyautogui.middleClick(words)", 1, "auxclick 1 x1"),
    "a click with keys": (
        "with pyautogui.hold(['ctrl', 'shift']): pyautogui.click(words)",
        3,
        "key Control ctrl | key Shift ctrl shift | click 0 x1 ctrl shift",
    ),
    "the wheel": ("pyautogui.scroll(-1); pyautogui.hscroll(1)", 2, "wheel 0,1 | wheel 1,0"),
    "a hotkey": ("pyautogui.hotkey('alt', 'q')", 2, "key Alt alt | key q alt"),
    "a drag and drop": (
        "pyautogui.moveTo(await middle('#d')); pyautogui.dragTo(await middle('#z'))",
        2,
        "dragstart | drop thing",
    ),
    "a slow drag and drop": (
        "pyautogui.moveTo(await middle('#d')); pyautogui.dragTo(await middle('#z'), duration=0.5, button='left')",
        2,
        "dragstart | drop thing",
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    spec = Spec(files=(TARGETS / "heard.py",))
    async with Session.open(spec, runs=tmp_path_factory.mktemp("runs")) as opened:
        cell = await opened.execute(_HELPERS)
        assert cell.status == "ok", cell.text
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page_session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    async with Session.open(runs=tmp_path_factory.mktemp("runs")) as opened:
        await _done(opened, f"PAGE = {_PAGE!r}\n{_PAGE_HELPERS}")
        yield opened


@pytest.mark.parametrize("row", ROWS, ids=[row["does"] for row in ROWS])
async def test_pyautogui(session: Session, row: dict[str, Any]) -> None:
    await _done(session, "pyautogui.moveTo(300, 300); heard();")
    cell = await session.execute(row["code"])
    heard = await _done(session, "log('\\n'.join(heard()))")
    assert cell.status == row.get("status", "ok"), cell.text
    said = "" if cell.text == "The cell ran and showed nothing." else cell.text
    for wanted in (one["contains"] for one in row["says"] if isinstance(one, dict)):
        assert wanted in said
    if all(isinstance(one, str) for one in row["says"]):
        assert said.splitlines() == row["says"]
    if "heard" in row:
        assert [line for line in heard.splitlines() if line] == row["heard"]


async def test_a_message_box_that_nobody_answers_is_closed_by_an_interrupt(session: Session) -> None:
    await _done(session, "kept = 5")
    cell = await session.execute("pyautogui.alert('Who answers?', 'Nobody')", deadline_s=2.0)
    assert (cell.status, "The box 'Who answers?' was closed, since nobody answered it." in cell.text) == (
        "timeout",
        True,
    )
    assert await _done(session, "log(wait_for(lambda: not window_named('Nobody'))); log(kept)") == "True\n5"


async def test_a_tk_window_of_the_cells_own_can_be_interrupted(session: Session) -> None:
    cell = await session.execute("import tkinter; root = tkinter.Tk(); root.mainloop()", deadline_s=2.0)
    assert (cell.status, "KeyboardInterrupt" in cell.text) == ("timeout", True)
    assert await _done(session, "root.after(50, root.quit); root.mainloop(); root.destroy(); log(kept)") == "5"


async def test_keys_never_come_before_the_click(session: Session) -> None:
    code = """
for _ in range(60):
    pyautogui.moveTo(500, 500, _pause=False); pyautogui.click(300, 300, _pause=False); pyautogui.press('a', _pause=False)
notes = [note for note in heard() if not note.startswith('move')]
log(notes == ['down 1 at 300,300', 'up 1 at 300,300', 'key a', 'key up a'] * 60)"""
    assert await _done(session, code) == "True"


async def test_drags_end_where_they_were_sent(session: Session) -> None:
    code = """
for _ in range(10):
    pyautogui.moveTo(300, 300, _pause=False); pyautogui.dragTo(400, 350, _pause=False)
log([note for note in heard() if note.startswith('up')] == ['up 1 at 400,350'] * 10)"""
    assert await _done(session, code) == "True"


async def test_a_page_sees_what_was_done(page_session: Session) -> None:
    seen = {}
    for what, (code, count, _) in _ON_PAGE.items():
        told = await _done(page_session, f"{code}\nlog(await heard('heard.length >= {count}'))\ntime.sleep(0.6)")
        seen[what] = told  # a pause, so that the next click is no double one
    assert seen == {what: expected for what, (_, _, expected) in _ON_PAGE.items()}


async def test_a_slider_and_a_selection_follow_a_drag(page_session: Session) -> None:
    code = """
await page.evaluate('scrollTo(0, 0)')
screen.settle()
box = await page.locator('#r').bounding_box()
pyautogui.moveTo(left + box['x'] + 8, top + box['y'] + box['height'] / 2)
pyautogui.drag(box['width'] - 16, None)
try: await page.wait_for_function('r.value > 95', timeout=20_000)
except Late: pass
log(await page.input_value('#r'))
box = await page.locator('#i').bounding_box()
pyautogui.moveTo(left + box['x'] + 3, top + box['y'] + box['height'] / 2)
pyautogui.drag(250, 0)
log(await page.evaluate('i.value.slice(i.selectionStart, i.selectionEnd)'))"""
    slid, marked = (await _done(page_session, code)).splitlines()
    assert int(slid) > 95
    assert marked == "one two three"


async def _done(session: Session, code: str) -> str:
    cell = await session.execute(code)
    assert cell.status == "ok", cell.text
    return cell.text
