"""Whether two pictures show the same."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageDraw

from cellwright_kernel.screen.differences import NoPicture, areas_between, difference, opened
from cellwright_kernel.wire import Area, PictureDifference, PicturePair

SCREEN = (320, 200)


def screen(*areas: Area, colour: tuple[int, int, int] = (0, 0, 0)) -> Image.Image:
    image = Image.new("RGB", SCREEN, (240, 240, 240))
    draw = ImageDraw.Draw(image)
    for area in areas:
        draw.rectangle((area.x, area.y, area.x + area.width - 1, area.y + area.height - 1), fill=colour)
    return image


def png(image: Image.Image, form: str = "PNG") -> bytes:
    data = io.BytesIO()
    image.save(data, form)
    return data.getvalue()


def test_the_same_picture_is_the_same() -> None:
    assert areas_between(screen(), screen()) == ()


def test_a_difference_is_found_to_the_pixel() -> None:
    assert areas_between(screen(), screen(Area(37, 53, 20, 9))) == (Area(37, 53, 20, 9),)


def test_differences_that_touch_are_one_and_others_are_told_from_the_top() -> None:
    low, high = Area(200, 150, 30, 30), Area(10, 10, 30, 12)
    assert areas_between(screen(), screen(low, high, Area(40, 10, 20, 20))) == (Area(10, 10, 50, 20), low)


@pytest.mark.parametrize("place", [Area(0, 0, 8, 8), Area(312, 192, 8, 8), Area(312, 0, 8, 8), Area(0, 192, 8, 8)])
def test_corners_are_looked_at_and_do_not_touch_those_of_the_other_side(place: Area) -> None:
    assert areas_between(screen(), screen(place, Area(156, 96, 8, 8))) == tuple(
        sorted((place, Area(156, 96, 8, 8)), key=lambda area: (area.y, area.x))
    )


def test_a_text_caret_blinks() -> None:
    assert areas_between(screen(), screen(Area(50, 50, 2, 18))) == ()


def test_what_is_taller_than_a_caret_counts() -> None:
    assert areas_between(screen(), screen(Area(50, 50, 2, 100))) == (Area(50, 50, 2, 100),)


def test_a_few_pixels_are_nothing() -> None:
    assert areas_between(screen(), screen(Area(50, 50, 11, 1))) == ()


def test_what_can_hardly_be_seen_is_nothing() -> None:
    assert areas_between(screen(), screen(Area(50, 50, 100, 100), colour=(217, 217, 217))) == ()


def test_one_colour_is_enough() -> None:
    assert areas_between(screen(), screen(Area(50, 50, 10, 10), colour=(240, 240, 200))) == (Area(50, 50, 10, 10),)


def test_what_is_masked_is_not_looked_at() -> None:
    clock = Area(280, 0, 40, 16)
    assert areas_between(screen(), screen(clock), [clock]) == ()
    assert areas_between(screen(), screen(clock), [Area(280, 0, 40, 12)]) == (Area(280, 12, 40, 4),)


def test_another_size_differs_everywhere() -> None:
    assert areas_between(screen(), Image.new("RGB", (100, 300))) == (Area(0, 0, 320, 300),)


@pytest.mark.parametrize("data", [b"", b"GIF89a", png(screen())[:100], b"\x89PNG\r\n\x1a\n" + b"\0" * 50])
def test_what_is_no_picture_is_told_so(data: bytes) -> None:
    with pytest.raises(NoPicture):
        opened(data)


@pytest.mark.parametrize("size", [(8192, 8193), (13_400, 13_400)], ids=["for us", "for Pillow too"])
def test_a_picture_of_more_pixels_than_any_screen_has_is_refused(size: tuple[int, int]) -> None:
    """A few kilobytes that would take much memory."""
    with pytest.raises(NoPicture):
        opened(png(Image.new("1", size)))


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF", "PPM", "ICO", "TGA", "EPS"])
def test_only_what_cells_show_is_decoded(form: str) -> None:
    with pytest.raises(NoPicture):
        opened(png(screen(), form))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_what_cells_show_is_decoded(form: str) -> None:
    assert opened(png(screen(), form)).size == SCREEN


def test_whatever_a_decoder_raises_says_that_it_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("no such chunk")

    monkeypatch.setattr(Image.Image, "convert", broken)
    with pytest.raises(NoPicture):
        opened(png(screen()))


def test_a_picture_is_opened() -> None:
    assert areas_between(opened(png(screen())), screen()) == ()


def test_a_pair_is_compared() -> None:
    area = Area(37, 53, 20, 9)
    pair = PicturePair(one=png(screen()), other=png(screen(area)))
    assert difference(pair) == PictureDifference(areas=(area,))
    assert difference(pair.model_copy(update={"masks": (area,)})) == PictureDifference(areas=())
    assert difference(pair.model_copy(update={"other": b"GIF89a"})) == PictureDifference(areas=None)
