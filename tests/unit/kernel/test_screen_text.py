"""Where a text stands, from the words that were read."""

from __future__ import annotations

import pytest

from cellwright_kernel.screen.text import Match, Word, lines, matches

_WORDS = [
    Word("Don\u2019t", (100, 200, 50, 12), 0.9),
    Word("save", (155, 203, 40, 9), 0.8),
    Word("Save", (400, 200, 40, 12), 0.95),
    Word("as", (445, 203, 15, 9), 0.7),
    Word("Save", (100, 260, 40, 12), 0.6),
]


def test_words_that_stand_far_apart_are_no_line() -> None:
    assert [[word.text for word in line] for line in lines(_WORDS)] == [
        ["Don\u2019t", "save"],
        ["Save", "as"],
        ["Save"],
    ]


def test_matches_come_in_reading_order_whatever_the_case() -> None:
    assert [match.box for match in matches(_WORDS, "SAVE")] == [
        (155, 203, 40, 9),
        (400, 200, 40, 12),
        (100, 260, 40, 12),
    ]


def test_a_match_over_several_words_has_the_box_of_all_and_the_least_confidence() -> None:
    assert matches(_WORDS, " don't   SAVE ") == [Match("Don\u2019t save", (100, 200, 95, 12), 0.8)]
    assert matches(_WORDS, "save as")[0].center == (430, 206)


def test_a_part_of_a_word_is_found_as_the_whole_word() -> None:
    assert [match.text for match in matches(_WORDS, "av")] == ["save", "Save", "Save"]
    assert matches(_WORDS, "save don't") == []


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValueError, match="it is empty"):
        matches(_WORDS, "  ")


@pytest.mark.parametrize("wanted", [None, 5, b"x"])
def test_what_is_no_text_is_refused(wanted: object) -> None:
    with pytest.raises(TypeError, match=r"^The text to look for is a str; it was "):
        matches(_WORDS, wanted)  # type: ignore[arg-type]


def test_the_first_of_no_matches_says_what_was_read_instead() -> None:
    words = [Word("Submit", (10, 10, 60, 20), 90.0), Word("form", (75, 10, 40, 20), 90.0)]
    none = matches(words, "Submot")
    assert list(none) == []
    assert none[:1] == []
    with pytest.raises(
        LookupError, match=r"^\"?'Submot' was not read on the screen; 2 words were read. Most alike: 'Submit form'\."
    ):
        none[0]
    assert matches(words, "submit")[0].text == "Submit"
