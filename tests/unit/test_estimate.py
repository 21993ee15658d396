"""About how many tokens something has: texts by their characters, pictures by their headers."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from cellwright.answer import said
from cellwright.conversation import user_item
from cellwright.estimate import UNREADABLE_PATCHES, patches_of, picture_tokens, tokens_of, tokens_of_request
from cellwright.model.base import Item, Request


def url(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def picture(width: int, height: int, kind: str, **options: object) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (width, height)).save(written, kind, **options)
    return written.getvalue()


def shows(*urls: str) -> Item:
    return {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_image", "image_url": one, "detail": "original"} for one in urls],
    }


@pytest.mark.parametrize("kind", ["png", "jpeg"])
@pytest.mark.parametrize(("size", "expected"), [((1440, 900), 1305), ((32, 32), 1), ((33, 32), 2), ((1, 65), 3)])
def test_picture_has_a_token_for_each_patch_of_32_pixels(kind: str, size: tuple[int, int], expected: int):
    assert picture_tokens(url(picture(*size, kind), kind)) == expected


def test_size_of_a_jpeg_is_found_behind_what_a_camera_had_to_say():
    assert picture_tokens(url(picture(320, 64, "jpeg", exif=b"Exif\0\0" + b"x" * 60_000), "jpeg")) == 20
    assert picture_tokens(url(picture(320, 64, "jpeg", progressive=True), "jpeg")) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "data:image/png;base64,",
        "data:image/png;base64,!",
        "https://host/picture.png",
        url(b"\x89PNG\r\n\x1a\n"),
        url(b"\x89PNG\r\n\x1a\n" + bytes(8 + 8)),
        url(b"\xff\xd8"),
        url(b"\xff\xd8" + b"\xff" * 300),
        url(b"\xff\xd8\xff\xe0\0\0" * 100),
        url(b"\xff\xd8\xff\xc0\0"),
        url(b"RIFF....WEBP"),
    ],
)
def test_picture_whose_size_cannot_be_read_is_taken_for_a_whole_screen(wrong: str):
    assert picture_tokens(wrong) == UNREADABLE_PATCHES


def test_patches_of_a_history_are_those_of_all_its_pictures():
    one, two = url(picture(64, 64, "png")), url(picture(32, 96, "jpeg"), "jpeg")
    assert patches_of((user_item("no picture"), shows(one, two), shows(one))) == 4 + 3 + 4


def test_four_characters_are_a_token_and_names_are_none():
    assert tokens_of(dict(said("x" * 9))) == 3
    assert tokens_of([dict(said("x" * 8)), (dict(said("x")),)]) == 3
    assert tokens_of({"id": "y" * 400, "call_id": "y" * 400, "type": "message", "role": "user", "status": "ok"}) == 0
    assert tokens_of({"type": "reasoning", "encrypted_content": "y" * 400}) == 100
    assert tokens_of([None, 3, True, {"a": 1.5}]) == 0


def test_request_has_its_instructions_and_its_tools_too():
    empty = tokens_of_request(Request("", (), ()))
    assert empty == 0
    assert tokens_of_request(Request("x" * 400, (), ())) == 100
    assert tokens_of_request(Request("", (), ({"name": "x" * 4000},))) > 1000
