"""Playwright's snapshots -> elements in pixels of the screen, and which page is in sight."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright_kernel.ui.elements import Element, Tree
from cellwright_kernel.ui.looking import assembled, chosen
from cellwright_kernel.ui.pages import PageReader
from cellwright_kernel.ui.programs import ProgramWindow, Said
from cellwright_kernel.ui.windows import Window


def _measure(**changes: Any) -> dict[str, Any]:
    usual = {"title": "Orders", "inner": [1440, 900], "window": [0, 0, 1440, 987], "zoom": 1, "pinch": [1, 0, 0]}
    return {**usual, **changes}


def _box(x: float, y: float, width: float, height: float) -> dict[str, float]:
    return {"x": x, "y": y, "width": width, "height": height}


def _read(*snapshot: Any, frames: Any = None, **measure: Any) -> list[Element]:
    raw = {"url": "http://a/", "measure": _measure(**measure), "snapshot": list(snapshot), "frames": frames or {}}
    page = PageReader(raw).page()
    assert page is not None
    return list(page.children)


def test_a_page_begins_below_the_browsers_bars() -> None:
    (button,) = _read({"role": "button", "name": "OK", "box": _box(8, 10, 35, 24)})
    assert button == Element("button", "OK", (8, 97, 35, 24), seen=(8, 97, 35, 24))


@pytest.mark.parametrize(
    ("measure", "box"),
    [
        ({"zoom": 1.5, "inner": [960, 600]}, (15, 87 + 30, 30, 60)),
        ({"pinch": [2, 5, 10]}, (10, 87 + 20, 40, 80)),
        ({"window": [100, 50, 1440, 987]}, (110, 137 + 20, 20, 40)),
    ],
    ids=["zoomed", "pinched", "moved"],
)
def test_zoom_and_place_of_the_window_are_taken_into_account(measure: dict[str, Any], box: tuple[int, ...]) -> None:
    (button,) = _read({"role": "button", "box": _box(10, 20, 20, 40)}, **measure)
    assert button.box == box


def test_a_frame_moves_scales_and_cuts_what_is_in_it() -> None:
    inner = [
        {"role": "button", "name": "Deep", "box": _box(10, 20, 30, 10)},
        {"role": "button", "name": "Beyond", "box": _box(10, 500, 30, 10)},
        {"role": "button", "name": "Half", "box": _box(90, 0, 30, 10)},
    ]
    frame = {"role": "iframe", "ref": "e2", "box": _box(100, 100, 220, 120), "children": inner}
    (found,) = _read(frame, frames={"e2": [110, 105, 100, 50, 2, 2]})
    assert [(one.name, one.box, one.seen, one.states) for one in found.children] == [
        ("Deep", (130, 232, 60, 20), (130, 232, 60, 20), ()),
        ("Beyond", (130, 1192, 60, 20), None, ("offscreen",)),
        ("Half", (290, 192, 60, 20), (290, 192, 20, 20), ()),
    ]


def test_a_frame_that_says_nothing_of_its_place_is_not_read() -> None:
    frame = {"role": "iframe", "ref": "e2", "box": _box(0, 0, 9, 9), "children": [{"role": "button"}]}
    assert [one.children for one in _read(frame, frames={"e2": None})] == [()]


def test_what_only_holds_others_is_left_out_and_texts_are_names() -> None:
    found = _read(
        {
            "role": "generic",
            "active": True,
            "children": [
                "Name",
                {"role": "textbox", "name": "Name", "text": "abc", "active": True, "box": _box(0, 0, 9, 9)},
                {"role": "paragraph", "text": "Some text", "box": _box(0, 0, 9, 9)},
                {"role": "generic", "cursor": "pointer", "text": "clicky", "box": _box(0, 0, 9, 9)},
                {"role": "checkbox", "name": "Agree", "checked": "mixed", "disabled": True, "box": _box(0, 0, 9, 9)},
                {"role": "option", "name": "two", "selected": True, "box": _box(0, 0, 0, 0)},
            ],
        }
    )
    assert [(one.role, one.name, one.value, one.states, one.box is None) for one in found] == [
        ("text", "Name", "", (), True),
        ("textbox", "Name", "abc", ("focused",), False),
        ("paragraph", "Some text", "", (), False),
        ("generic", "clicky", "", (), False),
        ("checkbox", "Agree", "", ("mixed", "disabled"), False),
        ("option", "two", "", ("selected",), True),
    ]


@pytest.mark.parametrize(
    "box",
    [None, [1, 2, 3, 4], {"x": 1}, _box(float("nan"), 0, 1, 1), _box(0, 0, 1e300, 1), {**_box(0, 0, 1, 1), "x": "1"}],
)
def test_a_box_that_is_none_is_left_out(box: Any) -> None:
    assert [one.box for one in _read({"role": "button", "box": box})] == [None]


@pytest.mark.parametrize("measure", [{"zoom": "2"}, {"inner": [1]}, {"window": None}])
def test_a_page_that_says_nonsense_of_its_place_is_no_page(measure: dict[str, Any]) -> None:
    assert PageReader({"url": "", "measure": _measure(**measure), "snapshot": []}).page() is None


_WHOLE = (0, 0, 1440, 987)


def _tree_of_buttons(count: int) -> Tree:
    buttons = [{"role": "button", "name": f"c{at}", "box": _box(0, 0, 9, 9)} for at in range(count)]
    raw = {"url": "http://a/", "measure": _measure(), "snapshot": [{"role": "generic", "children": buttons}]}
    return assembled([_window("Orders - Chromium", _WHOLE)], Said(), [raw])


def test_a_page_with_as_many_elements_as_are_read_is_read_whole() -> None:
    tree = _tree_of_buttons(5000)
    assert len(tree.find("button", None)) == 5000
    assert (tree.problems, tree.find("button", "c5000").certain()) == ((), [])


def test_a_page_with_more_elements_than_are_read_says_so_wherever_one_is_missing() -> None:
    tree = _tree_of_buttons(5001)
    told = (
        "Only the first 5,000 elements of the page http://a/ were read; the others are not listed: use Playwright's "
        "`page` for them."
    )
    assert (tree.problems, tree.unread) == ((told,), (told,))
    assert str(tree).startswith(f"({told})\n")
    found = tree.find("button", "c5000")
    assert found == []
    said = "There is no button named 'c5000' in what was read of the screen, which is not all. " + told
    assert found.missing.startswith(f"{said} With this role there are: ")
    with pytest.raises(LookupError, match="which is not all"):
        found.certain()
    assert len(tree.find("button", "c4999").certain()) == 1


def test_what_is_not_found_is_uncertain_only_when_something_on_the_screen_was_not_read() -> None:
    browser, dialog = _window("Orders - Chromium", _WHOLE), _window("Save", (1, 81, 198, 98), 5)
    hangs, no_browser = {"url": "http://a/", "problem": "It hangs."}, {"problem": "No browser."}
    no_programs = Said(problems=("No bus.",))

    def unread(windows: list[Window], said: Said | None, *pages: dict[str, Any]) -> tuple[str, ...]:
        return assembled(windows, said, pages).unread

    assert unread([browser], Said(), hangs) == ("It hangs.",)
    assert unread([browser], Said(), no_browser) == ("No browser.",)
    assert unread([dialog], Said(), no_browser) == ()
    assert unread([dialog, browser], no_programs) == ("No bus.",)
    assert unread([browser], no_programs) == ()
    assert unread([dialog, browser], None) == ()


def test_a_page_without_end_is_read_so_far_and_no_further() -> None:
    assert len(_read(*({"role": "button"} for _ in range(9000)))) == 5000
    assert len(_read(*({"role": "generic", "children": [{"role": "link"}]} for _ in range(9000)))) == 5000
    empty = [{"role": "generic"} for _ in range(20_001)]
    reader = PageReader({"url": "http://a/", "measure": _measure(), "snapshot": empty})
    assert (reader.page() is not None, len(reader.problems)) == (True, 1)
    deep: dict[str, Any] = {"role": "list"}
    for _ in range(300):
        deep = {"role": "list", "children": [deep]}
    assert sum(1 for one in Tree(tuple(_read(deep)))) == 81
    reader = PageReader({"url": "http://a/", "measure": _measure(), "snapshot": [deep]})
    assert (reader.page() is not None, reader.problems) == (
        True,
        ("Of the page http://a/ what lies more than 80 elements deep was not read: use Playwright's `page` for that.",),
    )


def _window(title: str, box: tuple[int, int, int, int], pid: int = 1, **more: bool) -> Window:
    facts = {"is_dialog": False, "is_active": False, "is_minimized": False, "is_stopped": False} | more
    return Window(title, box, pid, "chromium" if pid == 1 else "python3", **facts)


def test_of_the_tabs_of_a_window_only_the_one_it_is_named_after_is_in_sight() -> None:
    pages = [{"url": f"http://{name}/", "measure": _measure(title=title)} for name, title in ("aA", "bB", "cA")]
    whole = (0, 0, 1440, 987)
    latest = [("http://c/", "A"), ("http://a/", "A")]
    assert chosen([_window("B - Chromium", whole)], latest, pages) == [False, True, False]
    assert chosen([_window("A - Chromium", whole)], latest, pages) == [False, False, True]
    assert chosen([_window("A - Chromium", whole), _window("B - Chromium", whole)], latest, pages) == [
        False,
        True,
        True,
    ]
    assert chosen([_window("Open File", whole, is_dialog=True)], latest, pages) == [False, False, False]


def test_pages_and_programs_stand_in_their_windows_and_what_is_under_another_is_covered() -> None:
    raw = {
        "url": "http://a/",
        "measure": _measure(),
        "snapshot": [
            {"role": "button", "name": "Under", "box": _box(10, 10, 20, 20)},
            {"role": "button", "name": "Free", "box": _box(500, 10, 20, 20)},
        ],
    }
    ok = Element("button", "OK", (30, 120, 20, 20), seen=(30, 120, 20, 20))
    told = Element("dialog", "Save", (0, 80, 200, 100), ("modal",), children=(ok,))
    menu = Element("menu", "File", (700, 0, 9, 9))
    tree = assembled(
        [_window("Save", (1, 81, 198, 98), 5), _window("Orders - Chromium", (0, 0, 1440, 987))],
        Said((ProgramWindow(5, told), ProgramWindow(5, menu))),
        [raw, {"url": "http://b/", "measure": _measure(title="Other")}, {"problem": "The page c does not answer."}],
    )
    assert [(one.role, one.name, one.states) for one in tree] == [
        ("menu", "File", ()),
        ("dialog", "Save", ("modal",)),
        ("button", "OK", ()),
        ("window", "Orders - Chromium", ()),
        ("page", "Orders", ()),
        ("button", "Under", ("covered",)),
        ("button", "Free", ()),
        ("page", "Other", ("hidden",)),
    ]
    assert tree.problems == ("The page c does not answer.",)


def test_a_page_cannot_claim_to_be_beyond_its_window() -> None:
    raw = {
        "url": "http://a/",
        "measure": _measure(inner=[3000, 3000], window=[-700, -700, 3000, 3087]),
        "snapshot": [{"role": "button", "name": "OK", "box": _box(5, 5, 50, 20)}],
    }
    tree = assembled([_window("Orders - Chromium", (100, 100, 400, 300))], Said(), [raw])
    with pytest.raises(ValueError, match="out of sight"):
        _ = tree.find("button", "OK")[0].center
