"""PyAutoGUI's functions do on the desktop what they are documented to do: `acting.jsonl` has a row for each.

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

def wait_for(fact, limit_s=10):
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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    spec = Spec(files=(TARGETS / "heard.py",))
    async with Session.open(spec, runs=tmp_path_factory.mktemp("runs")) as opened:
        cell = await opened.execute(_HELPERS)
        assert cell.status == "ok", cell.text
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


async def _done(session: Session, code: str) -> str:
    cell = await session.execute(code)
    assert cell.status == "ok", cell.text
    return cell.text
