"""Whether two pictures show the same to somebody who looks at them.

Flows in: two pictures, and areas that are not looked at. Flows out: the areas in which they differ. Decided here: what counts
as a difference: 24 of 255 in one colour is visible, a few pixels by themselves are not; that a text caret blinks; and that
only PNG, JPEG and WebP are decoded.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from typing import Final

from PIL import Image, ImageChops, ImageDraw

from cellwright_kernel.wire import Area, PictureDifference, PicturePair

_VISIBLE: Final = 24
"""Of 255, in one colour; what encoders and smoothed edges change is less."""
_FEW_PIXELS: Final = 12
"""In one place: fewer are no difference."""
_TILE: Final = 8
"""Pixels; differences in tiles that touch are one."""
_CARET_WIDTH: Final = 4
_CARET_HEIGHT: Final = 48
_MOST_PIXELS: Final = 64 * 1024**2
_FORMATS: Final = ("PNG", "JPEG", "WEBP")
"""What cells show; Pillow knows forty more, and each decoder is one more that a stranger's bytes reach."""


class NoPicture(Exception):
    """The bytes that a cell showed as a picture are none, or would be one of an absurd size."""


def difference(pair: PicturePair) -> PictureDifference:
    """Compare two encoded pictures."""
    try:
        return PictureDifference(areas=areas_between(opened(pair.one), opened(pair.other), pair.masks))
    except NoPicture:
        return PictureDifference(areas=None)


def opened(data: bytes) -> Image.Image:
    """Return a picture that a cell showed, decoded: a stranger's bytes.

    Raises:
        NoPicture: It cannot be.
    """
    try:
        with warnings.catch_warnings(action="error"), Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height <= _MOST_PIXELS:
                return image.convert("RGB")
    except (
        Exception
    ) as error:  # what Pillow says of broken files is of any kind: struct.error, KeyError, zlib.error, ...
        raise NoPicture from error
    raise NoPicture


def areas_between(one: Image.Image, other: Image.Image, masks: Iterable[Area] = ()) -> tuple[Area, ...]:
    """Return where two pictures differ, from the top down; all of the larger one where they differ in size.

    Args:
        one: As `opened` returns it.
        other: The same.
        masks: Areas that are not looked at.
    """
    if one.size != other.size:
        return (Area(0, 0, max(one.width, other.width), max(one.height, other.height)),)
    visible = _visible(one, other)
    draw = ImageDraw.Draw(visible)
    for mask in masks:
        draw.rectangle((mask.x, mask.y, mask.x + mask.width - 1, mask.y + mask.height - 1), fill=0)
    if visible.getbbox() is None:
        return ()
    places = (_tight(visible, place) for place in _places(visible))
    return tuple(sorted((place for place in places if _counts(visible, place)), key=lambda area: (area.y, area.x)))


def _visible(one: Image.Image, other: Image.Image) -> Image.Image:
    """Return a picture that is 255 where a difference can be seen, and 0 elsewhere."""
    bands = ImageChops.difference(one, other).split()
    most = bands[0]
    for band in bands[1:]:
        most = ImageChops.lighter(most, band)
    return most.point([0] * _VISIBLE + [255] * (256 - _VISIBLE))


def _places(visible: Image.Image) -> list[Area]:
    """Return the tiles with differences, those that touch as one."""
    tiles = visible.reduce(_TILE).point([0] + [255] * 255)
    across, data = tiles.width, tiles.tobytes()
    left = {at for at, value in enumerate(data) if value}
    places: list[Area] = []
    while left:
        group = _group(left, across)
        columns, rows = [at % across for at in group], [at // across for at in group]
        x, y = min(columns), min(rows)
        places.append(Area(x * _TILE, y * _TILE, (max(columns) - x + 1) * _TILE, (max(rows) - y + 1) * _TILE))
    return places


def _group(left: set[int], across: int) -> list[int]:
    """Take one tile and all that touch it, by a side or a corner, out of a set."""
    group, edge = [], [left.pop()]
    while edge:
        at = edge.pop()
        group.append(at)
        columns = (-1, 0, 1) if 0 < at % across < across - 1 else (0, 1) if at % across == 0 else (-1, 0)
        for near in [at + row * across + column for row in (-1, 0, 1) for column in columns]:
            if near in left:
                left.remove(near)
                edge.append(near)
    return group


def _tight(visible: Image.Image, place: Area) -> Area:
    """Return the place without its edges in which nothing differs."""
    box = visible.crop(_corners(place)).getbbox()
    assert box is not None  # noqa: S101 - for the type checker: a tile has a difference
    left, top, right, bottom = box
    return Area(place.x + left, place.y + top, right - left, bottom - top)


def _counts(visible: Image.Image, place: Area) -> bool:
    if place.width <= _CARET_WIDTH and place.height <= _CARET_HEIGHT:
        return False
    return visible.crop(_corners(place)).histogram()[255] >= _FEW_PIXELS


def _corners(place: Area) -> tuple[int, int, int, int]:
    return place.x, place.y, place.x + place.width, place.y + place.height
