"""The sides of a picture are read from its head, and a refused one is known again."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from cellwright.model.base import Item
from cellwright.model.pictures import RefusedPictures, left_out_of, mark_of, size_of


def url_of(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(
    ("kind", "options"),
    [("PNG", {}), ("JPEG", {}), ("JPEG", {"progressive": True}), ("WEBP", {"lossless": True}), ("WEBP", {})],
)
def test_size_is_that_of_the_picture(kind: str, options: dict) -> None:
    stored = io.BytesIO()
    Image.new("RGB", (321, 123)).save(stored, kind, **options)
    assert size_of(url_of(stored.getvalue())) == (321, 123)


def test_size_of_a_webp_with_transparency_is_its_canvas() -> None:
    stored = io.BytesIO()
    Image.new("RGBA", (321, 123), (1, 2, 3, 4)).save(stored, "WEBP")
    assert size_of(url_of(stored.getvalue())) == (321, 123)


@pytest.mark.parametrize("data", [b"", b"\x89PNG", b"\xff\xd8\xff\xe0\xff\xff", b"RIFF    WEBPVP8 ", b"GIF89a", b"\xff\xd8\xff\xc0\0"])  # fmt: skip
def test_size_of_what_is_no_whole_picture_is_not_known(data: bytes) -> None:
    assert size_of(url_of(data)) is None


def test_url_that_is_no_base64_has_no_size() -> None:
    assert size_of("data:image/png;base64,ä") is None


def shown(*urls: str) -> Item:
    return {"type": "function_call_output", "output": [{"type": "input_image", "image_url": url} for url in urls]}


def test_picture_that_the_server_names_is_refused_and_no_other() -> None:
    pictures = RefusedPictures()
    assert pictures.refuse([shown("a"), shown("b", "c")], "input[1].output[1].image_url")
    assert pictures.refused == {mark_of("c")}


def test_without_a_name_all_that_were_not_taken_before_are_refused() -> None:
    pictures = RefusedPictures()
    pictures.take([shown("a")])
    assert pictures.refuse([shown("a"), shown("b", "c")], None)
    assert pictures.refused == {mark_of("b"), mark_of("c")}


def test_where_no_picture_is_new_none_is_refused() -> None:
    pictures = RefusedPictures()
    pictures.take([shown("a")])
    assert not pictures.refuse([shown("a")], "input[9].output[0]")
    assert pictures.refused == set()


def test_of_pictures_up_to_the_limit_none_is_left_out() -> None:
    assert [left_out_of(total, 4) for total in (0, 4, 5, 6, 7, 100)] == [0, 0, 2, 2, 4, 96]
    assert left_out_of(100, None) == 0
    assert [left_out_of(total, 1) for total in (1, 2, 3)] == [0, 1, 2]
    assert left_out_of(3, 0) == 3
