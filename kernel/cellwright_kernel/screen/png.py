"""A picture -> PNG, for speed.

Flows in: a PIL image, or strips. Flows out: PNG bytes that decode to the same pixels. Decided here: rows unfiltered and deflated by
ISA-L, where a screen has few colours and long runs; rows filtered by `Sub` where that came out too large to be a
screen.

Measured on two shared cores, CPU time of a 1440x1000 page with text, a gradient and a shadowed table: Pillow at level 1
29 ms and 295 kB, since it tries five filters on every row; zlib at level 1 without filters 11 ms and 300 kB; zlib-ng at
level 2 5.4 ms and 292 kB; ISA-L at level 1 2.2 ms and 323 kB, and the rows for it 1.2 ms. A palette does not pay: to
count the colours of a real page takes 15 ms. A photograph that fills the screen: Pillow 83 ms and 1.6 MB, here 30 ms
and 2.1 MB.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Final

from isal import isal_zlib
from PIL import Image, ImageChops

from cellwright_kernel.screen.strips import Strips

OnStrip = Callable[[Image.Image], None]
_COLOUR_TYPES: Final = {"L": 0, "RGB": 2, "RGBA": 6}
_OTHERS_LEVEL: Final = 1
_NONE, _SUB = 0, 1
_PHOTO: Final = 0.25
"""Of the raw size; what deflates to more is no screen of text and areas."""


def encode(picture: Image.Image | Strips, on_strip: OnStrip = lambda _: None) -> bytes:
    """Return the picture as PNG.

    Args:
        picture: At least one pixel, in a mode that PNG knows.
        on_strip: Gets each strip once, from top to bottom, where there are strips: to fetch it again would cost as much.
    """
    if isinstance(picture, Image.Image):
        if picture.mode not in _COLOUR_TYPES:
            file = io.BytesIO()
            picture.save(file, "PNG", compress_level=_OTHERS_LEVEL)
            return file.getvalue()
        picture = Strips.of(picture)
    width, height = picture.size
    data = _deflated(picture, _NONE, on_strip)
    if len(data) > _PHOTO * width * height * len(picture.mode):
        data = min(data, _deflated(picture, _SUB, lambda _: None), key=len)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[picture.mode], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _deflated(strips: Strips, row_filter: int, on_strip: OnStrip) -> bytes:
    """Deflate the rows, each behind the number of its filter.

    Pillow pads each row with one zero byte, and that byte stands just where the next row's filter does. For a whole
    screen at once, 13 MB were fetched from the Linux kernel and given back by each cell, which took as long as all the
    rest (16 ms of CPU instead of 9).
    """
    stride = strips.size[0] * len(strips.mode) + 1
    left = strips.size[1]
    deflate = isal_zlib.compressobj(1)
    parts = [deflate.compress(bytes([row_filter]))]
    for strip in strips:
        on_strip(strip)
        shown = strip if row_filter == _NONE else _differences(strip)
        rows = shown.tobytes("raw", strips.mode, stride, 1)
        left -= strip.height
        if row_filter != _NONE:
            marked = bytearray(rows)
            marked[stride - 1 :: stride] = bytes([row_filter]) * strip.height
            rows = bytes(marked)
        parts.append(deflate.compress(rows if left else rows[:-1]))
    return b"".join((*parts, deflate.flush()))


def _differences(image: Image.Image) -> Image.Image:
    """Each pixel less its left neighbour."""
    shifted = Image.new(image.mode, image.size)
    shifted.paste(image, (1, 0))
    return ImageChops.subtract_modulo(image, shifted)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
