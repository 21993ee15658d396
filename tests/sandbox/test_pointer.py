"""The pointer goes where it is told, and the fail-safe trips for others' moves only; pictures are taken in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.desk import Desk, desk_in
from Xlib import X

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_in(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture(autouse=True)
def nothing_stays_held(desk: Desk) -> Iterator[None]:
    desk.run("pyautogui.moveTo(700, 500)")
    yield
    assert desk.held() == []


def move_as_somebody_else(desk: Desk, x: int, y: int) -> None:
    with desk.watched() as other:
        other.screen().root.warp_pointer(x, y)
        other.sync()


def position(desk: Desk) -> list[int]:
    return list(desk.run("value = list(pyautogui.position())"))


def test_a_corner_reached_by_our_own_call_does_not_trip_the_fail_safe(desk: Desk) -> None:
    desk.run("pyautogui.moveTo(0, 0); pyautogui.click(300, 300)")
    assert position(desk) == [300, 300]
    for x, y in ((0, 0), (1439, 0), (0, 999), (1439, 999)):
        desk.run(f"pyautogui.click({x}, {y}); pyautogui.press('shift')")
        assert position(desk) == [x, y]


def test_a_corner_reached_by_somebody_else_trips_the_fail_safe_once(desk: Desk) -> None:
    move_as_somebody_else(desk, 0, 0)
    message = desk.error("pyautogui.click(300, 300)")
    assert message.startswith("pyautogui.FailSafeException: Fail-safe: the pointer was found in the corner (0, 0)")
    assert position(desk) == [720, 500]
    desk.run("pyautogui.click(300, 300)")
    assert position(desk) == [300, 300]


def test_a_corner_of_ours_trips_when_somebody_else_comes_back_to_it(desk: Desk) -> None:
    desk.run("pyautogui.moveTo(0, 0)")
    move_as_somebody_else(desk, 50, 50)
    desk.run("pyautogui.press('shift')")
    move_as_somebody_else(desk, 0, 0)
    assert desk.error("pyautogui.press('shift')").startswith("pyautogui.FailSafeException")


def test_the_fail_safe_lets_go_of_what_is_held(desk: Desk) -> None:
    desk.run("pyautogui.keyDown('shift'); pyautogui.mouseDown(button='left')")
    move_as_somebody_else(desk, 1439, 999)
    assert desk.error("pyautogui.write('x')").startswith("pyautogui.FailSafeException")
    assert desk.held() == []


def test_a_place_outside_the_desktop_is_an_error_with_its_size(desk: Desk) -> None:
    for call in ("click(5000, 5000)", "moveTo(-1, 5)", "dragTo(1440, 10)", "moveRel(5000, 0)", "scroll(1, 5000, 5000)"):
        message = desk.error(f"pyautogui.{call}")
        assert message.startswith("ValueError: (")
        assert "outside the desktop, which is 1440x1000 pixels" in message
        assert position(desk) == [700, 500]


def test_a_tween_may_overshoot_the_edge(desk: Desk) -> None:
    desk.run("pyautogui.moveTo(1430, 990, duration=0.3, tween=pyautogui.easeOutElastic)")
    assert position(desk) == [1430, 990]


def test_buttons_and_wheel_arrive_as_documented(desk: Desk) -> None:
    with desk.watched() as display:
        root = display.screen().root
        mask = X.ButtonPressMask | X.ButtonReleaseMask
        window = root.create_window(100, 100, 400, 400, 0, X.CopyFromParent, override_redirect=True, event_mask=mask)
        window.map()
        display.sync()
        calls = "click(200, 200); {0}.click(button=2); {0}.rightClick(); {0}.scroll(2); {0}.scroll(-1); {0}.hscroll(1)"
        desk.run("pyautogui." + calls.format("pyautogui"))
        desk.run("pyautogui.dragTo(300, 300, 0.2, button='left'); pyautogui.click(button='primary')")
        display.sync()
        seen = []
        while display.pending_events():
            event = display.next_event()
            seen.append(event.detail if event.type == X.ButtonPress else -event.detail)
        window.destroy()
    assert seen == [1, -1, 2, -2, 3, -3, 4, -4, 4, -4, 5, -5, 7, -7, 1, -1, 1, -1]


def test_a_drag_that_fails_lets_go_of_the_button(desk: Desk) -> None:
    desk.run("def bad(n): raise KeyError('tween')")
    assert desk.error("pyautogui.dragTo(300, 300, 0.5, tween=bad)").startswith("KeyError")
    assert desk.held() == []


def test_screenshots_are_taken_in_memory(desk: Desk) -> None:
    assert desk.run("value = pyautogui.screenshot().size") == [1440, 1000]
    assert desk.run("value = pyautogui.screenshot(region=(10, 20, 30, 40)).size") == [30, 40]
    assert desk.error("pyautogui.screenshot(region=(1430, 0, 30, 40))").startswith(
        "ValueError: The region (1430, 0, 30, 40)"
    )
    assert desk.run("value = list(pyautogui.pixel(5, 5))") == [0, 0, 0]


def test_a_picture_is_found_on_the_screen_or_said_to_be_missing(desk: Desk) -> None:
    with desk.watched() as display:
        root = display.screen().root
        window = root.create_window(
            600, 300, 20, 10, 0, X.CopyFromParent, override_redirect=True, background_pixel=0xCC3300
        )
        window.map()
        display.sync()
        here = "piece = pyautogui.screenshot(region=(595, 295, 30, 20)); value = list(pyautogui.locateOnScreen(piece))"
        assert desk.run(here) == [595, 295, 30, 20]
        window.destroy()
        display.sync()
    message = desk.error("pyautogui.locateOnScreen(piece)")
    assert message.startswith("pyautogui.ImageNotFoundException: The picture")


def test_the_documented_signatures_are_kept(desk: Desk) -> None:
    code = "import inspect; value = [str(inspect.signature(getattr(pyautogui, n))) for n in ('press', 'write', 'screenshot')]"
    press, write, screenshot = desk.run(code)
    assert (
        press
        == "(keys: 'str | Iterable[str]', presses: 'int' = 1, interval: 'float' = 0.0, logScreenshot: 'Any' = None, _pause: 'bool' = True) -> 'None'"
    )
    assert [name.partition(":")[0] for name in write.strip("(").split(", ")][:3] == [
        "message",
        "interval",
        "logScreenshot",
    ]
    assert screenshot.startswith("(imageFilename: ")
    assert desk.run("value = pyautogui.press.__doc__").startswith("Performs a keyboard key press down")
    assert desk.run("value = [pyautogui.FAILSAFE, pyautogui.PAUSE]") == [True, 0.01]
