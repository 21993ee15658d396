"""Any text that is typed arrives as it was written, in programs of four kinds; and no key stays held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright
from tests.desk import TARGETS, Desk, desk_in, wait_for
from Xlib import X

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

ASCII = "".join(chr(point) for point in range(0x20, 0x7F))
REMAPPED = "éàüñøåçß" * 4 + "日本語漢字"
MIXED = (
    f'<a href="x"> {ASCII}\näöüÄÖÜß€ <>@{{}}[]|~^\n'
    f"{REMAPPED}\nemoji 😀 👩‍💻 ✓ e\u0301 한국어 עברית\n" + "".join(chr(0x4E00 + i) for i in range(300)) + "\nend"
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_in(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture(autouse=True)
def no_key_stays_held(desk: Desk) -> Iterator[None]:
    yield
    held = desk.held()
    desk.run("release_all()")
    assert held == []


def a_tk_field(desk: Desk, out: Path) -> str:
    desk.start(sys.executable, TARGETS / "tk_text.py", out)
    return "tk"


def a_gtk_field(desk: Desk, out: Path) -> str:
    desk.start("/usr/bin/python3", TARGETS / "gtk_text.py", out)
    return "gtk text"


def a_terminal(desk: Desk, out: Path) -> str:
    desk.start("xterm", "-u8", "-T", "terminal", "-e", "sh", "-c", f"exec cat > {out}")
    return "terminal"


Field = tuple[Desk, Callable[[], str]]


@pytest.fixture(params=[a_tk_field, a_gtk_field, a_terminal], ids=["tk", "gtk", "xterm"])
def field(request: pytest.FixtureRequest, desk: Desk, tmp_path: Path) -> Iterator[Field]:
    """A focused text field, and a way to read what is in it."""
    out = tmp_path / "typed"
    title = request.param(desk, out)
    program = desk.started[-1]
    desk.await_focus_in(title)
    assert wait_for(out.exists)
    yield desk, lambda: out.read_text(encoding="utf-8")
    desk.stop(program)


def typed(field: Field, text: str) -> str:
    """Type a text and a newline, and read it back once the newline is there."""
    desk, content = field
    before = content()
    desk.run(f"pyautogui.write({text + chr(10)!r})")
    wait_for(lambda: content().count("\n") > before.count("\n") + text.count("\n"))
    return content().removeprefix(before).removesuffix("\n")


@pytest.fixture
def page(desk: Desk, tmp_path: Path) -> Iterator[Page]:
    """A page with an input and a text area, in a Chromium with a window."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "chromium",
            executable_path="/usr/lib/chromium/chromium",
            headless=False,
            no_viewport=True,
            args=["--ozone-platform=x11", "--test-type"],
            env={**os.environ, "DISPLAY": desk.name},
        )
        page = context.pages[0]
        page.set_content(PAGE)
        desk.await_focus_in("fields")
        yield page
        context.close()


def click_into(desk: Desk, page: Page, field: str) -> None:
    """Click a field with the real pointer: a new page's keyboard focus is in the address bar.

    Right after the start the window may still be moving under the pointer; so until the page says the click arrived.
    """
    place = (
        f"(() => {{ const box = {field}.getBoundingClientRect(); return [screenX + (outerWidth - innerWidth) / 2 + box.x,"
        " screenY + outerHeight - innerHeight + box.y] })()"
    )
    page.evaluate(f"{field}.onmousedown = event => clicked = true; clicked = false")

    def arrived() -> bool:
        x, y = page.evaluate(place)
        desk.run(f"pyautogui.click({x} + 20, {y} + 8)")
        return bool(wait_for(lambda: page.evaluate("clicked && document.hasFocus()"), 0.5))

    assert wait_for(arrived)


PAGE = """<title>fields</title><input id=line size=80 autofocus><br><textarea id=area rows=25 cols=100></textarea>
<p id=heard></p><script>
addEventListener("keydown", event => { heard.textContent += event.key + " " })
area.addEventListener("keydown", event => {
  if (event.key == "Tab") { event.preventDefault(); area.setRangeText("\\t", area.selectionStart, area.selectionEnd, "end") }
})
</script>"""


def test_a_mixed_text_arrives_in_a_pages_text_area_three_times_in_a_row(desk: Desk, page: Page) -> None:
    click_into(desk, page, "area")
    for _ in range(3):
        page.evaluate("area.value = ''")
        desk.run(f"pyautogui.write({MIXED + chr(9) + 'end'!r})")
        page.wait_for_function("area.value.endsWith('end')", timeout=30_000)
        assert page.input_value("#area") == MIXED + "\tend"


def test_a_text_arrives_in_the_input_that_was_just_clicked(desk: Desk, page: Page) -> None:
    text = f"{ASCII} {REMAPPED} 😀👩‍💻"
    click_into(desk, page, "line")
    desk.run(f"pyautogui.write({text!r})")
    page.wait_for_function("line.value.length > 130", timeout=30_000)
    assert page.input_value("#line") == text


def test_hot_keys_are_heard_and_let_go(desk: Desk, page: Page) -> None:
    click_into(desk, page, "area")
    desk.run("pyautogui.write('abc'); pyautogui.hotkey('ctrl', 'a'); pyautogui.hotkey('ctrl', 'x')")
    desk.run("pyautogui.hotkey('ctrl', 'v'); pyautogui.press('left', presses=2); pyautogui.write('-')")
    page.wait_for_function("area.value.includes('-')", timeout=30_000)
    assert page.input_value("#area") == "a-bc"
    heard = page.inner_text("#heard").split()
    assert heard == ["a", "b", "c", "Control", "a", "Control", "x", "Control", "v", "ArrowLeft", "ArrowLeft", "-"]


def test_a_mixed_text_arrives_exactly_three_times_in_a_row(field: Field) -> None:
    for _ in range(3):
        assert typed(field, MIXED) == MIXED


def test_tabs_arrive(field: Field) -> None:
    assert typed(field, "a\tb\tc") == "a\tb\tc"


def test_typing_goes_on_after_a_program_changed_the_layout(field: Field) -> None:
    desk, _ = field
    try:
        assert typed(field, "a/b_c:1@x") == "a/b_c:1@x"
        for layout in ("fr", "de", "us,ru"):
            subprocess.run(["setxkbmap", "-display", desk.name, layout], check=True)
            assert (layout, typed(field, f"a/b_c:1@x {ASCII} éд日😀")) == (layout, f"a/b_c:1@x {ASCII} éд日😀")
    finally:
        subprocess.run(["setxkbmap", "-display", desk.name, "us"], check=True)


def test_caps_lock_does_not_change_a_text_and_is_left_on(field: Field) -> None:
    desk, _ = field
    desk.run("pyautogui.press('capslock')")
    assert typed(field, "aB é") == "aB é"
    with desk.watched() as display:
        assert display.screen().root.query_pointer().mask & X.LockMask
    desk.run("pyautogui.press('capslock')")


def test_a_text_of_ten_thousand_characters_arrives(field: Field) -> None:
    text = "\n".join(f"{number:04} The quick brown fox – ëäß" for number in range(320))
    started = time.monotonic()
    assert typed(field, text) == text
    print(f"{len(text) / (time.monotonic() - started):.0f} characters a second")


def test_an_interrupt_ends_a_long_text_and_leaves_no_key_held(field: Field) -> None:
    desk, content = field
    desk.send(f"pyautogui.write({chr(10).join(['Aé日' * 9] * 2000)!r})")
    assert wait_for(lambda: len(content()) > 50 or desk.cells.poll() is not None)
    started = time.monotonic()
    desk.cells.send_signal(signal.SIGINT)
    assert desk.reply()["error"] == "KeyboardInterrupt"
    assert time.monotonic() - started < 5
    assert desk.held() == []
    assert set(content()) == set("Aé日\n")
    desk.run("pyautogui.press('enter')")


def test_held_keys_are_let_go_when_a_call_fails(desk: Desk) -> None:
    assert "1 / 0" not in desk.error("with pyautogui.hold(['shift', 'ctrl']): 1 / 0")
    assert desk.held() == []
    assert desk.error("pyautogui.hotkey('ctrl', 'nonsense')").startswith("ValueError")
    assert desk.held() == []
    desk.run("pyautogui.keyDown('shift'); pyautogui.mouseDown()")
    assert len(desk.held()) == 2
    desk.run("release_all()")
    assert desk.held() == []


def test_a_text_for_nobody_is_refused(desk: Desk) -> None:
    message = desk.error("pyautogui.write('x')")
    assert message.startswith("RuntimeError: No window has the keyboard focus: 0 of 1 characters were typed.")


def test_a_program_that_hangs_is_reported_with_how_much_was_typed(desk: Desk, tmp_path: Path) -> None:
    title = a_tk_field(desk, tmp_path / "typed")
    program = desk.started[-1]
    desk.await_focus_in(title)
    usual_s = desk.run(
        "from cellwright_kernel.python import keyboard; value, keyboard._GIVE_UP_S = keyboard._GIVE_UP_S, 1.0"
    )
    program.send_signal(signal.SIGSTOP)
    message = desk.error(f"pyautogui.write({'x' * 200!r})")
    desk.run(f"keyboard._GIVE_UP_S = {usual_s}")
    assert message.endswith("Look at the screen before typing the rest.")
    assert "has not read its keys for 1 s: 64 of 200 characters were typed." in message
    desk.stop(program)
