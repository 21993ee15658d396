"""Key names and characters become keysyms, or an error that helps."""

from __future__ import annotations

import pytest

from cellwright_kernel.python.key_names import keysym_of, keysyms_of


def test_every_printable_ascii_character_is_its_own_keysym() -> None:
    text = "".join(chr(point) for point in range(0x20, 0x7F))
    assert keysyms_of(text) == [ord(character) for character in text]


def test_characters_beyond_latin_1_are_unicode_keysyms() -> None:
    assert keysyms_of("é€日😀") == [0xE9, 0x010020AC, 0x010065E5, 0x0101F600]


def test_newline_tab_and_crlf_are_keys() -> None:
    assert keysyms_of("a\r\nb\tc\n") == [0x61, 0xFF0D, 0x62, 0xFF09, 0x63, 0xFF0D]


def test_halves_of_an_emoji_are_joined() -> None:
    assert keysyms_of("\ud83d\ude00") == [0x0101F600]


@pytest.mark.parametrize("character", ["\x00", "\x07", "\ud83d"])
def test_what_no_key_stands_for_is_refused(character: str) -> None:
    with pytest.raises(ValueError, match=f"U\\+{ord(character):04X} cannot be typed"):
        keysyms_of("a" + character)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("return_key", ["enter", "return"]),
        ("page_up", ["pageup"]),
        ("control", ["ctrl"]),
        ("arrowleft", ["left"]),
        ("escpe", ["escape"]),
        ("fn", []),
    ],
)
def test_an_unknown_key_is_an_error_that_lists_near_names(given: str, near: list[str]) -> None:
    with pytest.raises(ValueError, match="There is no key named") as refused:
        keysym_of(given)
    listed = str(refused.value).partition("Near names: ")[2].partition(".")[0].split(", ")
    assert set(near) <= set(listed)


def test_a_combination_in_one_name_is_told_how_to_be_given() -> None:
    with pytest.raises(ValueError, match=r"hotkey\('ctrl', 'c'\)"):
        keysym_of("ctrl+c")


def test_names_are_known_in_any_case() -> None:
    assert keysym_of("Enter") == keysym_of("return") == keysym_of("\n") == 0xFF0D
