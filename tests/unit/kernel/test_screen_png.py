"""A picture comes out of its PNG with the pixels that went in."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from cellwright_kernel.screen import png
from cellwright_kernel.screen.strips import Strips


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (640, 401)])
def test_every_mode_keeps_its_pixels(mode: str, size: tuple[int, int]) -> None:
    picture = Image.linear_gradient("L").resize(size).convert(mode)
    found = Image.open(io.BytesIO(png.encode(picture)))
    assert (found.mode, found.size) == (mode, size)
    assert found.tobytes() == picture.tobytes()


def test_a_photograph_is_filtered_and_keeps_its_pixels() -> None:
    photograph = Image.effect_noise((90, 60), 60).convert("RGB").resize((720, 480), Image.Resampling.BICUBIC)
    encoded = png.encode(photograph)
    assert Image.open(io.BytesIO(encoded)).tobytes() == photograph.tobytes()
    plain = png._deflated(Strips.of(photograph), png._NONE, lambda _: None)
    assert len(encoded) < 0.8 * len(plain)


def test_a_screen_of_areas_is_small() -> None:
    picture = Image.new("RGB", (1440, 1000), "teal")
    picture.paste("white", (100, 100, 900, 700))
    assert len(png.encode(picture)) < 21_000, "each strip costs a few bytes: 20,093 in all"
