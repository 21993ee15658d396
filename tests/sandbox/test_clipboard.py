"""The clipboard, in both languages: every program's Ctrl+C is read, every program's Ctrl+V pastes what was written, and it is not lost."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.desk import TARGETS

from cellwright.sandbox.base import Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TEXTS = {
    "ASCII": "".join(chr(point) for point in range(0x20, 0x7F)),
    "umlauts": "ÄÖÜ äöü ß é ñ ø å ç €",
    "CJK": "日本語 漢字 中文 한국어",
    "emoji": "😀 👩‍💻 🇩🇪 ✓",
    "right to left": "שלום עולם – مرحبا بالعالم",
    "combining": "e\u0301 n\u0303 q\u0307\u0323 x\u20d7",
    "a thousand characters": "".join(f"{number:03} täxt 字 " for number in range(100)),
    "newline and tab": "one\ttwo\nthree\n\tfour",
}

_HELPERS = """
import os, pathlib, signal, subprocess, sys
from Xlib import X
from Xlib.display import Display
from Xlib.error import BadWindow

own = Display()
programs = {}

def wait_for(fact, limit_s=20):
    end = time.monotonic() + limit_s
    while not (found := now(fact)) and time.monotonic() < end: time.sleep(0.005)
    return found

def now(fact):
    try: return fact()
    except RuntimeError: return None  # for a moment the clipboard has no owner yet, or the one before, of a picture

def in_front():
    active = own.screen().root.get_full_property(own.intern_atom('_NET_ACTIVE_WINDOW'), X.AnyPropertyType)
    window = own.create_resource_object('window', active.value[0]) if active and active.value[0] else None
    try: return str(window.get_wm_name()) if window else ''
    except BadWindow: return ''

def begin(name):
    out = pathlib.Path(f'{name}.txt')
    out.unlink(missing_ok=True)
    command = {
        'tk': [sys.executable, 'tk_text.py', out],
        'gtk': [sys.executable, 'gtk_text.py', out],
        'xterm': ['xterm', '-u8', '-T', 'xterm', '-e', 'sh', '-c', f'exec cat > {out}'],
    }[name]
    # GTK would start a message bus for itself, which outlives it
    quiet = os.environ | {'DBUS_SESSION_BUS_ADDRESS': 'disabled:', 'NO_AT_BRIDGE': '1'}
    programs[name] = subprocess.Popen(command, env=quiet, stderr=subprocess.DEVNULL, start_new_session=True)
    assert wait_for(lambda: name in in_front() and out.exists()), in_front()
    return out

def end(name):
    os.killpg(programs[name].pid, signal.SIGKILL)
    programs.pop(name).wait()
    wait_for(lambda: name not in in_front())

async def page_field():
    await page.set_content('''<title>field</title><textarea id=t rows=20 cols=80></textarea><script>t.onkeydown = event => {
      if (event.key == "Tab") { event.preventDefault(); t.setRangeText("\\\\t", t.selectionStart, t.selectionEnd, "end") } }</script>''')
    await page.focus('#t')
    pyautogui.click(await page.evaluate('[screenX + (outerWidth - innerWidth) / 2 + 100, screenY + outerHeight - innerHeight + 60]'))

async def came_into_page(text):
    from playwright.async_api import TimeoutError as Late
    try: await page.wait_for_function('text => t.value === text', arg=text, timeout=20_000)
    except Late: pass
    return await page.input_value('#t')
log('ready')
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    spec = Spec(files=(TARGETS / "tk_text.py", TARGETS / "gtk_text.py"))
    async with Session.open(spec, runs=tmp_path_factory.mktemp("runs")) as opened:
        assert await said(opened, _HELPERS) == "ready"
        yield opened


async def said(session: Session, code: str, language: Language = "python") -> str:
    cell = await session.execute(code, language=language)
    assert cell.status == "ok", cell.text
    return cell.text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_a_page_gets_the_same_text_typed_and_pasted(session: Session, text: str) -> None:
    await said(session, f"text = {text!r}\nlog(1)")
    for act in ("pyautogui.write(text)", "clipboard.write(text); pyautogui.hotkey('ctrl', 'v')"):
        code = f"await page_field()\n{act}\nfound = await came_into_page(text)\nlog(found == text or repr(found))"
        assert await said(session, code) == "True"


@pytest.mark.parametrize(
    ("program", "paste"),
    [
        ("tk", "'ctrl', 'v'"),
        ("gtk", "'ctrl', 'v'"),
        ("xterm", "'ctrl', 'shift', 'v'"),
        ("xterm", "'shift', 'insert'"),
    ],
    ids=["tk", "gtk", "xterm", "xterm by Insert"],
)
async def test_a_program_gets_the_same_texts_typed_and_pasted(session: Session, program: str, paste: str) -> None:
    """A terminal hands a line on once it is complete, so each text ends with a newline."""
    acts = ("pyautogui.write(text)", f"clipboard.write(text); pyautogui.hotkey({paste})")
    await said(session, f"out = begin({program!r}); before = ''")
    try:
        for name, text in TEXTS.items():
            for act in acts:
                code = f"text = {text + chr(10)!r}\n{act}\nwait_for(lambda: out.read_text() == before + text)\n"
                code += "came = out.read_text()\nlog(came == before + text or repr(came))\nbefore = came"
                assert (name, act, await said(session, code)) == (name, act, "True")
    finally:
        await said(session, f"end({program!r})")


async def test_what_a_page_copies_is_read(session: Session) -> None:
    text = TEXTS["umlauts"] + TEXTS["emoji"]
    code = f"text = {text!r}\nawait page_field()\nawait page.fill('#t', text)\npyautogui.hotkey('ctrl', 'a'); pyautogui.hotkey('ctrl', 'c')\n"
    assert await said(session, f"{code}wait_for(lambda: clipboard.read() == text)\nlog(clipboard.read())") == text


@pytest.mark.parametrize("program", ["tk", "gtk"])
async def test_what_a_program_copies_is_read_also_after_its_end(session: Session, program: str) -> None:
    text = f"from {program} ä 日 😀"
    select = "pyautogui.hotkey('ctrl', 'a')" if program == "gtk" else "pyautogui.hotkey('ctrl', '/')"
    code = (
        f"text = {text!r}\nout = begin({program!r})\ntry:\n    pyautogui.write(text)\n    {select}; pyautogui.hotkey('ctrl', 'c')\n"
        f"    wait_for(lambda: clipboard.read().strip() == text)\n    log(clipboard.read().strip())\nfinally: end({program!r})\n"
        "log(clipboard.read().strip())"
    )
    assert (await said(session, code)).splitlines() == [text, text]


async def test_what_is_marked_in_a_terminal_is_copied_with_control_shift_c(session: Session) -> None:
    code = """
out = begin('xterm')
try:
    pyautogui.write('copyme')
    window = own.get_input_focus().focus
    place = window.translate_coords(own.screen().root, 0, 0)
    screen.settle()  # what the terminal has not drawn yet cannot be marked
    pyautogui.doubleClick(-place.x + 20, -place.y + 8)
    wait_for(lambda: clipboard.read(primary=True) == 'copyme')
    log(clipboard.read(primary=True))
    pyautogui.hotkey('ctrl', 'shift', 'c')
    wait_for(lambda: clipboard.read() == 'copyme')
    log(clipboard.read())
finally: end('xterm')"""
    assert (await said(session, code)).splitlines() == ["copyme", "copyme"]


async def test_both_languages_share_it(session: Session) -> None:
    text = TEXTS["combining"] + TEXTS["right to left"]
    await said(session, f"clipboard.write({text!r}); log(1)")
    assert await said(session, "console.log(await clipboard.read())", "javascript") == text
    await said(session, "await clipboard.write('from JavaScript ✓'); console.log(1)", "javascript")
    assert await said(session, "log(clipboard.read())") == "from JavaScript ✓"
    code = "await clipboard.writeText(''); console.log(JSON.stringify(await clipboard.readText()))"
    assert await said(session, code, "javascript") == '""'


async def test_ten_million_bytes_go_through_in_both_directions(session: Session) -> None:
    """Long texts go in pieces: to and from another program, which here is xclip."""
    code = """
text = 'ä' * 5_000_000
clipboard.write(text)
log(clipboard.read() == text)
log(subprocess.run(['xclip', '-selection', 'clipboard', '-o'], capture_output=True, check=True).stdout.decode() == text)
subprocess.run(['xclip', '-selection', 'clipboard', '-i'], input=b'x' * 10_000_000, check=True)
log(wait_for(lambda: clipboard.read() == 'x' * 10_000_000))"""
    assert await said(session, code) == "True\nTrue\nTrue"
    lengths = "await clipboard.write('y'.repeat(10_000_000)); console.log((await clipboard.read()).length)"
    assert await said(session, lengths, "javascript") == "10000000"
    await said(session, "clipboard.write(''); log(1)")


async def test_pyperclip_takes_the_same_way_and_starts_no_process(session: Session) -> None:
    code = """
import pyperclip, psutil
before = set(psutil.pids())
pyperclip.copy('token ä'); log(clipboard.read()); log(pyperclip.paste())
pyperclip.copy(12.5); log(clipboard.read())
clipboard.write('other'); log(pyperclip.paste())
pyperclip.copy('marked', primary=True); log([pyperclip.paste(primary=True), pyperclip.paste()])
log(pyperclip.determine_clipboard()[1]())
log([one.name() for one in psutil.process_iter() if one.pid not in before and 'chrom' not in one.name()])  # the browser's come and go
try: pyperclip.copy([1])
except pyperclip.PyperclipException as error: log(error)"""
    assert (await said(session, code)).splitlines() == [
        "token ä",
        "token ä",
        "12.5",
        "other",
        "['marked', 'other']",
        "other",
        "[]",
        "only str, int, float, and bool values can be copied to the clipboard, not list",
    ]


async def test_what_a_helper_process_copied_outlives_it(session: Session) -> None:
    code = """
program = "import pyperclip; pyperclip.copy('from a child')"
subprocess.run([sys.executable, '-c', program], check=True)
wait_for(lambda: clipboard.read() == 'from a child')
import psutil
for process in psutil.process_iter():
    if process.name() == 'xclip': process.kill()
log(wait_for(lambda: clipboard.read()))"""
    assert await said(session, code) == "from a child"


async def test_a_picture_is_no_text_and_is_told_so(session: Session) -> None:
    code = "from PIL import Image; Image.new('RGB', (4, 4)).save('p.png')\nsubprocess.run(['xclip', '-selection', 'clipboard', '-t', 'image/png', '-i', 'p.png'], check=True)\n"
    code += "def is_picture():\n    try: return clipboard.read() is None\n    except RuntimeError: return True\nwait_for(is_picture)\n"
    cell = await session.execute(f"{code}clipboard.read()")
    assert (cell.status, "What was copied is no text. It can be had as image/png. Nothing was read." in cell.text) == (
        "error",
        True,
    )
    assert await said(session, "import pyperclip; log(repr(pyperclip.paste()))") == "''"


async def test_an_owner_that_hangs_is_told_of_in_two_seconds(session: Session) -> None:
    code = """
import psutil
subprocess.run(['xclip', '-selection', 'clipboard', '-i'], input=b'x', check=True)
assert wait_for(lambda: clipboard.read() == 'x')
running = [one for one in psutil.process_iter() if one.name() == 'xclip' and one.status() != psutil.STATUS_ZOMBIE]
process = max(running, key=lambda one: one.pid)  # the owner before may not have gone yet
process.suspend()
try: clipboard.read()
except Exception as error: log(str(error).partition(',')[0])
process.kill()
log(wait_for(lambda: clipboard.read()))"""
    assert (await said(session, code)).splitlines() == ["The program that copied has not answered for 2 s", "x"]


async def test_wrong_values_change_nothing(session: Session) -> None:
    await said(session, "clipboard.write('stays'); log(1)")
    for code, told in (
        ("clipboard.write(5)", "TypeError: A str can be copied, not int. The clipboard is as it was."),
        ("clipboard.write('\\ud83d')", "ValueError: The text has half of a surrogate pair"),
    ):
        cell = await session.execute(code)
        assert (cell.status, told in cell.text) == ("error", True)
    cell = await session.execute("await clipboard.write(5)", language="javascript")
    assert cell.text.startswith("TypeError: A string can be copied, not number. The clipboard is as it was.")
    assert await said(session, "log(clipboard.read())") == "stays"


async def test_hundreds_of_calls_at_once_are_all_answered(session: Session) -> None:
    await said(session, "clipboard.write('same'); log(1)")
    code = "const all = await Promise.allSettled(Array.from({ length: 200 }, () => clipboard.read()));\n"
    code += "console.log([...new Set(all.map(one => one.value ?? one.reason.message))].join('|'))"
    assert await said(session, code, "javascript") == "same"


async def test_it_survives_a_kernels_restart_and_the_displays_end(session: Session) -> None:
    await said(session, "clipboard.write('kept'); log(1)")
    await session.restart("python")
    assert (await said(session, "log(clipboard.read())")).endswith("kept")
    end_display = (
        "import psutil, time\nxvnc = next(p for p in psutil.process_iter() if p.name() == 'Xvnc'); xvnc.kill(); log(1)"
    )
    assert (await session.execute(end_display)).status == "ok"
    assert (await said(session, "log(clipboard.read())")).endswith("kept")
    assert (
        await said(
            session,
            "import subprocess; log(subprocess.run(['xclip', '-selection', 'clipboard', '-o'], capture_output=True).stdout)",
        )
    ).endswith("b'kept'")


async def test_its_socket_is_made_anew_when_a_cell_has_removed_it_and_the_desktop_can_be_started_again() -> None:
    async with Session.open() as session:
        code = "clipboard.write('kept')\nimport shutil; shutil.rmtree('/run/kernel-host', ignore_errors=True)\nclipboard.read()"
        cell = await session.execute(code)
        assert "is gone. Usually a cell has removed that folder. It is made anew after this cell" in cell.text
        reads: dict[Language, str] = {
            "python": "log(clipboard.read())",
            "javascript": "console.log(await clipboard.read())",
        }
        for language, read in reads.items():
            assert (await session.execute(read, language=language)).text == "kept"
        ended = await session.execute(
            "import subprocess; subprocess.run(['pkill', 'Xvnc']); import time; time.sleep(1)"
        )
        after = await session.execute("log(clipboard.read())")
        # a busy machine needs more than a second
        assert "Display and browser were started again" in ended.text + after.text
        assert after.text.endswith("kept")
