"""What a model is told of a cell."""

from __future__ import annotations

import base64
from typing import get_args

import pytest

from cellwright.answer import ANSWER_BYTES, ANSWER_CHARS, ANSWER_ITEMS, answer, answer_after
from cellwright_kernel.wire import Cell, CellStatus, Image, Output, Source, Text

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")


def cell(*outputs: Output, status: CellStatus = "ok", number: int = 5) -> Cell:
    return Cell(number=number, language="python", code="", status=status, outputs=outputs, started_at="")


def text(words: str, source: Source = "log", of_cell: int | None = None) -> Text:
    return Text(text=words, source=source, of_cell=of_cell)


def image(data: bytes = PNG, of_cell: int | None = None) -> Image:
    return Image(media_type="image/png", width=1, height=1, data=data, of_cell=of_cell)


def test_logged_text_is_one_item_with_exactly_its_words() -> None:
    assert answer(cell(text("42"))) == [{"type": "input_text", "text": "42"}]


def test_picture_is_a_data_url_with_detail_original_and_nothing_else() -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert answer(cell(image())) == [{"type": "input_image", "image_url": url, "detail": "original"}]


def test_order_is_kept() -> None:
    kinds = [item["type"] for item in answer(cell(text("a"), image(), text("b"), image()))]
    assert kinds == ["input_text", "input_image", "input_text", "input_image"]


@pytest.mark.parametrize("status", get_args(CellStatus))
def test_answer_is_never_empty_and_every_status_is_said(status: CellStatus) -> None:
    (item,) = answer(cell(status=status))
    assert item["type"] == "input_text"
    assert item["text"].endswith(".")


def test_status_that_a_notice_has_said_is_not_said_twice() -> None:
    assert len(answer(cell(text("Interrupted at 24 s.", "notice"), status="timeout"))) == 1
    assert len(answer(cell(text("ValueError: x", "error"), status="error"))) == 1


def test_notice_written_by_an_earlier_cell_does_not_count_as_this_ones() -> None:
    said = answer(cell(text("Interrupted.", "notice", of_cell=3), status="timeout"))
    assert len(said) == 2


def test_late_output_is_labelled_with_its_cell() -> None:
    said = answer(cell(text("tick", "stdout", of_cell=3), image(of_cell=4), text("own")))
    assert [item.get("text", "picture") for item in said] == [
        "From cell 3, after it had ended:\ntick",
        "From cell 4, after it had ended:",
        "picture",
        "own",
    ]


def test_late_output_alone_does_not_hide_that_the_cell_said_nothing() -> None:
    said = answer(cell(text("tick", of_cell=3)))
    assert said[-1] == {"type": "input_text", "text": "The cell ended without output."}


def test_output_that_names_its_own_cell_is_not_late() -> None:
    assert answer(cell(text("x", of_cell=5))) == [{"type": "input_text", "text": "x"}]


def test_picture_that_is_none_becomes_a_sentence() -> None:
    (item,) = answer(cell(image(b"GIF89a not a png")))
    assert item["type"] == "input_text"
    assert "16 bytes" in item["text"]


def test_too_many_items_are_cut_and_counted() -> None:
    said = answer(cell(*(text("x") for _ in range(ANSWER_ITEMS + 7))))
    assert len(said) == ANSWER_ITEMS + 2
    assert said[-2].get("text", "").startswith("[7 texts of this cell were left out: one answer holds")
    assert said[-1].get("text") == "The cell itself ended without an error."


def test_status_is_said_again_when_the_notice_did_not_fit() -> None:
    outputs = [*(text("x") for _ in range(ANSWER_ITEMS)), text("Interrupted.", "notice")]
    assert "deadline" in answer(cell(*outputs, status="timeout"))[-1].get("text", "")


def test_pictures_beyond_the_ceiling_are_left_out_and_counted() -> None:
    big = image(PNG + bytes(5 * 1024**2))
    said = answer(cell(big, big, big, text("after")))
    assert [item["type"] for item in said] == ["input_image", "input_image", *["input_text"] * 3]
    assert said[2].get("text") == "after"
    assert said[3].get("text", "").startswith("[1 picture of this cell was left out: one answer holds ")
    assert sum(len(item.get("image_url", "")) for item in said) < ANSWER_BYTES


def test_pictures_and_texts_that_are_left_out_are_counted_apart() -> None:
    big = image(PNG + bytes(5 * 1024**2))
    said = answer(cell(big, big, big, *(text("x") for _ in range(ANSWER_ITEMS))))
    (sentence,) = [item.get("text", "") for item in said if "left out" in item.get("text", "")]
    assert sentence.startswith("[1 picture and 2 texts of this cell were left out: ")


def test_long_text_is_cut_in_the_middle_and_says_how_much_is_missing() -> None:
    (item,) = answer(cell(text("a" * ANSWER_CHARS + "b" * ANSWER_CHARS)))
    assert item["type"] == "input_text"
    assert len(item["text"]) <= ANSWER_CHARS
    assert item["text"][0] == "a"
    assert item["text"][-1] == "b"
    assert f"[{ANSWER_CHARS + 60} characters are missing here]" in item["text"]


def test_lone_surrogates_do_not_reach_the_server() -> None:
    assert answer(cell(text("a\udc80b"))) == [{"type": "input_text", "text": "a?b"}]


def test_what_stands_before_a_cell_takes_no_room_from_its_own_output() -> None:
    own = cell(text("o" * 50_000), image(PNG + bytes(10 << 20)))
    before = [text("b" * 60_000), image(PNG + bytes(10 << 20)), text("short")]
    items = answer_after(before, own)
    assert items[-2:] == answer(own)
    assert sum(len(item.get("text", "")) for item in items) <= ANSWER_CHARS + 300
    assert "of these cells" in items[-3].get("text", "")
    assert answer_after([], own) == answer(own)
    assert answer_after([text("a")], cell(text("b"))) == answer(cell(text("a"), text("b")))
