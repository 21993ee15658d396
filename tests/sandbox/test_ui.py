"""`ui` on a real desktop: pages, native programs and windows that say nothing, in one tree; in both languages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox, pytest.mark.asyncio(loop_scope="module")]

_DIALOG = (Path(__file__).parents[1] / "targets" / "gtk_dialog.py").read_text()
_PAGE = """<!doctype html><title>Orders</title><style>body{margin:20px}</style><h1>Orders</h1>
<button onclick="document.title = 'Sent'">Send</button> <label>City <input id=city></label>
<div style="height:1400px"></div>
<iframe style="border:7px solid;padding:11px;width:400px;height:200px;transform:scale(1.5);transform-origin:0 0" srcdoc="
<p>Within</p><button onclick='parent.document.title = `Inner`'>Deep</button><iframe srcdoc='<button onclick=&quot;
top.document.title = `Innermost`&quot;>Deepest</button>'></iframe>"></iframe><div style="height:400px"></div>"""
_HELPERS = f"""
import os, pathlib, signal, subprocess
pathlib.Path('dialog.py').write_text({_DIALOG!r})
def dialog(name):
    return subprocess.Popen(['/usr/bin/python3', 'dialog.py', name], stderr=subprocess.DEVNULL)
def tk(title):
    code = f'import tkinter; w = tkinter.Tk(); w.title({{title!r}}); w.geometry("300x80"); w.mainloop()'
    return subprocess.Popen(['/usr/bin/python3', '-c', code])
def click(**what):
    pyautogui.click(*ui.find(**what)[0].center)
def end(process):
    process.kill(); process.wait()
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    async with Session.open(runs=tmp_path_factory.mktemp("runs")) as opened:
        await _said(opened, _HELPERS)
        yield opened


async def _said(session: Session, code: str, language: Language = "python") -> list[str]:
    cell = await session.execute(code, language=language)
    assert cell.status == "ok", cell.text
    return cell.text.splitlines()


async def _shown(session: Session) -> None:
    await _said(
        session,
        f"await page.set_content({_PAGE!r})\nawait page.evaluate('scrollTo(0, 0)')\nui.wait('button', 'Deepest')\nscreen.settle()",
    )


async def test_a_button_of_a_page_is_clicked_and_a_field_is_filled(session: Session) -> None:
    await _shown(session)
    code = """
click(role='textbox', name='city')
async with asyncio.timeout(30):
    while 'focused' not in ui.find('textbox', 'City')[0].states:
        await asyncio.sleep(0.02)
pyautogui.write('Chur')
click(role='button', name='send')
log(ui.wait('page', 'Sent').name)
log(ui.find('textbox', 'City')[0].value)
log(ui.find('textbox')[0].states)"""
    assert await _said(session, f"import asyncio\n{code}") == ["Sent", "Chur", "()"]


async def test_what_is_out_of_sight_says_so_and_is_clicked_once_scrolled_to_also_in_frames(session: Session) -> None:
    await _shown(session)
    code = """
deep = ui.find('button', 'Deep', exact=True)[0]
log(deep.states)
try:
    deep.center
except ValueError as error:
    log(error)
await page.evaluate('scrollTo(0, 1300)')
click(role='button', name='Deep', exact=True)
log(ui.wait('page', 'Inner').name)
click(role='button', name='Deepest')
log(ui.wait('page', 'Innermost').name)"""
    states, why, *titles = await _said(session, code)
    assert states == "('offscreen',)"
    assert re.fullmatch(r'button "Deep" \[\d+,\d+ \d+x\d+\] offscreen is out of sight: scroll to it first\.', why)
    assert titles == ["Inner", "Innermost"]


async def test_a_page_that_is_zoomed_is_clicked_where_it_shows_its_button(session: Session) -> None:
    await _shown(session)
    code = """
before = ui.find('button', 'Send')[0].box
pyautogui.hotkey('ctrl', '+'); pyautogui.hotkey('ctrl', '+')
async with asyncio.timeout(30):
    while await page.evaluate('devicePixelRatio') < 1.2:
        await asyncio.sleep(0.02)
screen.settle()
after = ui.find('button', 'Send')[0].box
log(after[2] / before[2] > 1.15)
click(role='button', name='Send')
log(ui.wait('page', 'Sent').name)
pyautogui.hotkey('ctrl', '0')
_ = screen.settle()"""
    assert await _said(session, f"import asyncio\n{code}") == ["True", "Sent"]


async def test_a_dialog_that_is_still_to_come_is_waited_for_and_its_button_clicked_in_one_cell(
    session: Session,
) -> None:
    code = """
answers = pathlib.Path('answers'); answers.unlink(missing_ok=True)
program = dialog('answers')
log(ui.wait(role='window', name='save changes').role)
click(role='textbox', window='Save')
pyautogui.write('Grüezi 漢')
click(role='checkbox', name='remember')
log(ui.find('checkbox', 'Remember me')[0].states)
click(role='push button', name='OK')
program.wait(30)
log(answers.read_text())"""
    assert await _said(session, code) == ["dialog", "('checked', 'focused')", "2 Grüezi 漢"]


async def test_a_wait_in_vain_says_what_there_is(session: Session) -> None:
    await _shown(session)
    cell = await session.execute("ui.wait(role='window', name='No such', timeout=0.3)")
    assert cell.status == "error"
    assert "It did not come within 0.3 s. There is no window named 'No such' on the screen. With this role" in cell.text
    cell = await session.execute("ui.find(role='button', name='Cancel')[0].center")
    assert cell.status == "error"
    assert "LookupError: There is no button named 'Cancel' on the screen." in cell.text
    assert 'With this role there are: "Send", "Deep", "Deepest".' in cell.text


async def test_a_window_whose_program_tells_nothing_is_in_the_tree_and_covers_what_is_under_it(
    session: Session,
) -> None:
    await _shown(session)
    code = """
program = tk('plain window')
seen = ui.wait(role='window', name='plain window')
log(ui.tree(window='plain'))
log([one.states for one in ui.find('heading', 'Orders')])
subprocess.run(['/usr/bin/python3', '-c', ''])
box = seen.box
await page.evaluate('''([x, y]) => { const b = document.querySelector('button');
    b.style.position = 'fixed'; b.style.left = x + 'px'; b.style.top = y + 'px' }''', [box[0] + 30, box[1] - 87 + 20])
log(ui.find('button', 'Send')[0].states)
end(program)"""
    outline, heading, button = await _said(session, code)
    assert re.fullmatch(
        r'- window "plain window" \[\d+,\d+ 300x80\] active \(.*; it tells nothing of its elements: '
        r"use a screenshot, screen.find_text\)",
        outline,
    )
    assert (heading, button) == ("[()]", "('covered',)")


@pytest.mark.parametrize(("how", "why"), [("stop", "it is stopped"), ("sleep", "it is busy, or hangs")])
async def test_a_program_that_hangs_is_named_and_keeps_nobody_waiting(session: Session, how: str, why: str) -> None:
    code = f"""
program, other = dialog('a1'), dialog('a2')
async with asyncio.timeout(30):
    while len(ui.find('button', 'OK')) < 2:
        await asyncio.sleep(0.05)
if {how!r} == 'stop':
    os.kill(program.pid, signal.SIGSTOP)
else:
    click(role='textbox', window='Save changes')
    pyautogui.write('sleep')
began = time.monotonic()
tree = ui.tree(window='Save changes')
log(time.monotonic() - began < 3)
log(len(tree.problems)); log(tree.problems[0])
log(len(tree.find('button', 'OK')))
log(sum('it does not answer' in window.note for window in tree.windows))
end(program); end(other)"""
    in_time, count, problem, buttons, silent = await _said(session, f"import asyncio\n{code}")
    assert (in_time, count, buttons, silent) == ("True", "1", "1", "1")
    assert re.fullmatch(rf"python3 \(pid \d+\) does not answer: {why}\.", problem)


@pytest.mark.parametrize("what", ["dbus-daemon", "at-spi2-registryd"])
async def test_a_bus_that_hangs_is_said_and_keeps_nobody_waiting(session: Session, what: str) -> None:
    code = f"""
ui.tree()
def command(pid):
    try: return open(f'/proc/{{pid}}/cmdline', 'rb').read()
    except OSError: return b''
those = [int(pid) for pid in os.listdir('/proc') if pid.isdigit() and {what.encode()!r} in command(pid)]
for pid in those: os.kill(pid, signal.SIGSTOP)
began = time.monotonic()
try: tree = ui.tree()
finally:
    for pid in those: os.kill(pid, signal.SIGCONT)
log(len(those) > 0, time.monotonic() - began < 10, tree.problems)
log(ui.tree().problems)"""
    hung, sound = await _said(session, code)
    said = "('Native programs are not read: the accessibility bus gave no answer"
    assert hung.startswith(f"True True {said}")
    assert sound == "()"


async def test_a_bus_that_was_killed_is_there_again_for_the_next_program(session: Session) -> None:
    code = """
first = dialog('b1')
ui.wait('button', 'OK', window='Save changes')
def pids(word):
    return [int(p) for p in os.listdir('/proc') if p.isdigit() and word in open(f'/proc/{p}/cmdline', 'rb').read()]
for pid in pids(b'at-spi2-registryd'):
    os.kill(pid, signal.SIGKILL)
log(ui.wait('button', 'OK', window='Save changes').name)
for pid in pids(b'dbus-daemon'):
    os.kill(pid, signal.SIGKILL)
tree = ui.tree(window='Save changes')
log(tree.problems); log('tells nothing' in tree.windows[0].note)
second = dialog('b2')
log(ui.wait('button', 'OK', window='Save changes').name)
end(first); end(second)"""
    assert await _said(session, code) == ["OK", "()", "True", "OK"]


async def test_a_page_that_computes_and_one_that_is_hidden_are_told_of(session: Session) -> None:
    await _shown(session)
    code = """
other = await context.new_page()
await other.set_content('<title>Second</title><button>Only here</button>')
log([(one.name, one.states) for one in ui.find('page')])
log(len(ui.find('button', 'Send')))
await other.evaluate('() => { setTimeout(() => { const end = Date.now() + 9000; while (Date.now() < end); }) }')
log(ui.tree().problems)
for ask in (lambda: ui.find('button', 'Only here'), lambda: ui.wait('button', 'Only here', timeout=0)):
    try:
        log(ask())
    except (LookupError, TimeoutError) as error:
        log(str(error).partition(' With this role')[0])
await other.close()
await page.bring_to_front()
log(ui.wait('button', 'Send').name)"""
    hangs = (
        "The page about:blank did not answer within 2 s: it is very large, computes, or shows a dialog. "
        "Its elements are not listed."
    )
    missing = f"There is no button named 'Only here' in what was read of the screen, which is not all. {hangs}"
    assert await _said(session, code) == [
        "[('Second', ()), ('Orders', ('hidden',))]",
        "0",
        f"({hangs!r},)",
        missing,
        f"It did not come within 0 s. {missing}",
        "Send",
    ]


async def test_a_page_with_too_many_elements_says_so_in_both_languages(session: Session) -> None:
    await _said(
        session,
        "await page.set_content(''.join(f'<button>c{at}</button>' for at in range(5200)))\nui.wait('button', 'c4000')",
    )
    code = """
try:
    log(ui.find(name='c5199'))
except LookupError as error:
    log(error)
log(len(ui.find('button')))"""
    told = "Only the first 5,000 elements of the page about:blank were read; "
    missing, count = await _said(session, code)
    assert missing.startswith(
        f"There is no element named 'c5199' in what was read of the screen, which is not all. {told}"
    )
    assert count == "5000"
    code = "try { await ui.find({ name: 'c5199' }) } catch (error) { console.log(error.name, error.message) }"
    assert await _said(session, code, "javascript") == [f"LookupError {missing}"]


async def test_javascript_is_told_of_what_is_no_text(session: Session) -> None:
    code = """
for (const ask of [() => ui.find({ name: /far/ }), () => ui.wait({ role: 5 }), () => ui.tree(['x'])]) {
  try { await ask() } catch (error) { console.log(error.name, error.message) }
}"""
    assert await _said(session, code, "javascript") == [
        "TypeError name is a text, such as 'OK'; it was /far/.",
        "TypeError role is a text, such as 'OK'; it was 5.",
        "TypeError window is a text, such as 'OK'; it was [ 'x' ].",
    ]


async def test_threads_may_ask_and_a_background_task_is_told_how(session: Session) -> None:
    await _shown(session)
    code = """
import asyncio
log(len(await asyncio.to_thread(ui.find, 'button', 'Send')))
log((await ui.find('button', 'Send'))[0].name, )
async def beside():
    return ui.tree()
try:
    await asyncio.create_task(beside())
except RuntimeError as error:
    log(error)"""
    *found, told = await _said(session, code)
    assert found == ["1", "Send"]
    assert "use `await asyncio.to_thread(ui.tree)`" in told


async def test_a_wait_is_interrupted_and_the_next_call_works(session: Session) -> None:
    await _shown(session)
    await _said(session, "await ui.tree(); 0", "javascript")
    cell = await session.execute("ui.wait('button', 'Nowhere', timeout=60)", deadline_s=1.0)
    assert cell.status == "timeout"
    cell = await session.execute(
        "await ui.wait({ role: 'button', name: 'Nowhere' }, 60_000)", language="javascript", deadline_s=1.5
    )
    assert cell.status == "timeout"
    assert await _said(session, "log(ui.find('button', 'Send')[0].name)") == ["Send"]
    assert await _said(session, "console.log((await ui.find({ role: 'button' }))[0].name)", "javascript") == ["Send"]


async def test_javascript_has_the_same_in_its_own_forms(session: Session) -> None:
    await _shown(session)
    await _said(session, "program = dialog('j1')")
    code = """
const window = await ui.wait({ role: 'window', name: 'Save changes' });
const ok = await ui.wait({ role: 'button', name: 'ok', exact: false }, 5_000);
const tree = await ui.tree();
console.log(window.role, ok.name, ok.box.width > 20, ok.center.x > ok.box.x, tree.windows.length);
console.log(String(tree).includes('- button "OK"'), String(tree).includes('- button "Send"'));
const none = await ui.find({ role: 'button', name: 'Cancel it' });
console.log(none.length, none.missing);
ok"""
    said = await _said(session, code, "javascript")
    assert said[:2] == ["dialog OK true true 2", "true true"]
    assert said[2].startswith("0 There is no button named 'Cancel it' on the screen. With this role there are: ")
    assert re.fullmatch(r'<button "OK" \[\d+,\d+ \d+x\d+\]>', said[3])
    cell = await session.execute(
        "(await ui.find({ role: 'button', name: 'Cancel it' }))[0].center", language="javascript"
    )
    assert (cell.status, "LookupError" in cell.text) == ("error", True)
    cell = await session.execute("await ui.wait({ name: 'Nowhere' }, 200)", language="javascript")
    assert (cell.status, "It did not come within 0.2 s." in cell.text) == ("error", True)
    python = await _said(
        session,
        "log(ui.find('button', 'OK')[0].center); click(role='button', name='OK'); program.wait(30)\nlog(pathlib.Path('j1').read_text())",
    )
    assert python[1].startswith("2 ")


async def test_what_a_program_calls_itself_is_one_printable_line(session: Session) -> None:
    code = r"""
program = tk('evil\n- button "OK" [1,1 5x5]\x1b[31m' + 'x' * 900)
found = ui.wait(role='window', name='evil')
log(len(found.name)); log(found.name.isprintable())
log(str(ui.tree(window='evil')).count('\n'))
end(program)"""
    assert await _said(session, code) == ["200", "True", "0"]


async def test_once_the_display_was_started_again_all_is_listed_as_before(session: Session) -> None:
    await _said(session, "first = dialog('x')\nui.wait('button', 'OK')")
    killed = await session.execute(
        "for p in os.listdir('/proc'):\n"
        "    if p.isdigit() and open(f'/proc/{p}/comm').read() == 'Xvnc\\n':\n        os.kill(int(p), signal.SIGKILL)"
    )
    assert killed.status == "ok", killed.text
    code = "second = dialog('y')\nui.wait('button', 'OK')\nlog([one.role for one in ui.tree().windows])"
    assert (await _said(session, code))[-1] == "['dialog', 'window']"
    code = "console.log((await ui.tree()).windows.map((one) => one.role).join(' '))"
    assert (await _said(session, code, "javascript"))[-1] == "dialog window"
    await _said(session, "first.wait(); end(second)")


async def test_nothing_runs_before_it_is_needed_and_nothing_is_left(
    tmp_path: Path, processes_that_name: Callable[[Path], list[str]]
) -> None:
    async with Session.open(runs=tmp_path) as session:
        (address,) = await _said(session, "import os\nlog(os.environ['AT_SPI_BUS_ADDRESS'])")
        folder = Path(address.removeprefix("unix:path=")).parent
        assert [line for line in processes_that_name(folder) if "dbus-daemon" in line] == []
        await _said(session, _HELPERS + "dialog('x')\nui.wait('button', 'OK')")
        assert [line.split()[0] for line in processes_that_name(folder) if "dbus-daemon" in line] == ["dbus-daemon"]
    assert processes_that_name(folder) == []
