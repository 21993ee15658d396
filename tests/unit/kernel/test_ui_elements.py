"""The tree of what is on the screen: its outline, what is found in it, and what is said when it is not there."""

from __future__ import annotations

import pytest

from cellwright_kernel.ui.elements import MUTE, Element, Tree, clean

_OK = Element("button", "OK", (10, 20, 80, 24), ("focused",), seen=(10, 20, 80, 24))
_CANCEL = Element("button", 'Say "no"', (100, 20, 80, 24), ("disabled",), seen=(100, 20, 80, 24))
_CITY = Element("textbox", "City", (10, 60, 80, 24), (), "Chur", seen=(10, 60, 80, 24))
_BELOW = Element("link", "Below", (10, 2000, 80, 24), ("offscreen",))
_TREE = Tree(
    (
        Element("dialog", "Save changes", (0, 0, 300, 200), ("active",), "", "python3, pid 7", (_OK, _CANCEL, _CITY)),
        Element("window", "Plain", (400, 0, 90, 90), (), "", f"Tk; {MUTE}"),
        Element(
            "window",
            "Orders - Chromium",
            (0, 0, 9, 9),
            (),
            "",
            "chromium, pid 2",
            (Element("page", "Orders", children=(_BELOW,)),),
        ),
    ),
    ("gimp (pid 9) does not answer: it is stopped.",),
)


def test_an_outline_has_one_line_an_element_and_begins_with_what_could_not_be_read() -> None:
    assert str(_TREE).splitlines() == [
        "(gimp (pid 9) does not answer: it is stopped.)",
        '- dialog "Save changes" [0,0 300x200] active (python3, pid 7)',
        '  - button "OK" [10,20 80x24] focused',
        '  - button "Say \\"no\\"" [100,20 80x24] disabled',
        '  - textbox "City" [10,60 80x24] = "Chur"',
        f'- window "Plain" [400,0 90x90] (Tk; {MUTE})',
        '- window "Orders - Chromium" [0,0 9x9] (chromium, pid 2)',
        '  - page "Orders"',
        '    - link "Below" [10,2000 80x24] offscreen',
    ]
    assert repr(_TREE) == str(_TREE)
    assert str(Tree(())) == "There is no window on the screen."


def test_an_outline_that_is_too_long_says_how_much_is_left_out() -> None:
    many = Tree((Element("window", children=tuple(Element("text", f"line {number}") for number in range(2000))),))
    lines = str(many).splitlines()
    assert len(str(many)) < 10_200
    assert (
        lines[-1]
        == f"… {2001 - len(lines) + 1} more lines are left out: ui.tree(window=...), or ui.find(role=..., name=...)."
    )


@pytest.mark.parametrize(
    ("role", "name", "exact", "found"),
    [
        ("button", None, False, ["OK", 'Say "no"']),
        ("push button", "ok", False, ["OK"]),
        ("BUTTON", "ok", True, []),
        (None, "CI", False, ["City"]),
        ("entry", None, False, ["City"]),
        ("window", None, False, ["Save changes", "Plain", "Orders - Chromium"]),
        ("dialog", None, False, ["Save changes"]),
    ],
)
def test_elements_are_found_by_role_and_name(role: str | None, name: str | None, exact: bool, found: list[str]) -> None:
    assert [element.name for element in _TREE.find(role, name, exact=exact)] == found


def test_windows_are_chosen_by_what_is_in_their_title() -> None:
    assert [element.name for element in _TREE.find("button", None, window="save")] == ["OK", 'Say "no"']
    assert [window.name for window in _TREE.of_window("PLAIN").windows] == ["Plain"]
    late = Element("window", "about:blank", children=(Element("page", "Shop"),))
    assert Tree((late,)).of_window("shop").windows == (late,)
    there = 'there are: "Save changes", "Plain", "Orders - Chromium".'
    with pytest.raises(LookupError, match=f"^There is no window 'gone' on the screen; {there}$"):
        _TREE.of_window("gone")
    assert _TREE.find("button", None, window="gone").missing == f"There is no window 'gone' on the screen; {there}"


@pytest.mark.parametrize(
    ("role", "name", "instead"),
    [
        ("button", "Apply", 'With this role there are: "OK", "Say \\"no\\"".'),
        ("checkbox", "City", 'So named are: textbox "City" [10,60 80x24] = "Chur".'),
        ("checkbox", None, "There are: 2 button, 2 window, 1 dialog, 1 textbox, 1 page, 1 link."),
    ],
)
def test_what_is_not_there_is_told_with_what_is(role: str, name: str | None, instead: str) -> None:
    found = _TREE.find(role, name)
    assert list(found) == []
    said = f"There is no {role}" + (f" named {name!r}" if name else "")
    rest = ' gimp (pid 9) does not answer: it is stopped. No elements are known of "Plain": look at a screenshot.'
    with pytest.raises(LookupError) as missing:
        found[0]
    assert str(missing.value) == f"{said} on the screen. {instead}{rest}"
    assert found[:1] == []


def test_only_what_is_in_sight_has_a_middle_to_click() -> None:
    assert _OK.center == (50, 32)
    with pytest.raises(ValueError, match="offscreen is out of sight: scroll to it first"):
        _ = _BELOW.center
    with pytest.raises(ValueError, match="has no place on the screen of its own"):
        _ = Element("text", "City").center


def test_whatever_a_program_says_is_one_printable_line() -> None:
    assert clean("a\n- b\x1b[31m\u202ec\u00a0 d") == "a - b [31m c d"
    assert clean("👩\u200d💻 漢") == "👩\u200d💻 漢"
    assert clean("x" * 300) == "x" * 199 + "…"
    assert clean(None) == "None"


async def test_awaiting_what_is_there_already_gives_it() -> None:
    assert await _TREE is _TREE
    assert await _OK is _OK
    assert list(await _TREE.find("button", "OK")) == [_OK]


def test_that_nothing_was_found_is_no_answer_when_not_all_was_read() -> None:
    told = "The page http://a/ did not answer."
    tree = Tree((Element("window", "Plain", note="tk"),), (told,), (told,))
    for found in (tree.find("button", "OK"), tree.find("button", None, window="gone")):
        assert (list(found), found.is_whole) == ([], False)
        with pytest.raises(LookupError, match=f"{told}"):
            found.certain()
    assert len(tree.find("window", None).certain()) == 1
    assert tree.of_window("plain").unread == (told,)
