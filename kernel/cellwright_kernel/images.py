"""Pictures that a cell showed, checked before they leave.

Flows in: bytes and what they claim to be. Flows out: an `Image` whose type and size are what its own header says,
scaled down where it is larger than the session allows; or the reason why it is none. Decided here: the formats, the
most pixels that are looked at, and that a picture within the limits is passed on byte for byte.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import warnings
from typing import Final

from cellwright_kernel.scaling import fitting, scaled_sentence
from cellwright_kernel.wire import Image, MediaType

MEDIA_TYPES: Final[tuple[MediaType, ...]] = ("image/png", "image/jpeg", "image/webp")
_PIXELS: Final = 50_000_000
"""Decoded this is 200 MB; a larger picture is a mistake or an attack."""
_SHORT: Final = "the data ends within the header"


class NotAnImage(Exception):
    """The bytes are no picture of a known format; the message says why."""


def read_image(claimed: str, encoded: object, *, width: int, height: int) -> tuple[Image, str | None]:
    """Return the picture, and a sentence about its scaling if it was scaled.

    Args:
        claimed: The media type it was sent as.
        encoded: Its base64 text, or anything else that a stranger put there.
        width: Most pixels across.
        height: Most pixels down.

    Raises:
        NotAnImage: with the reason.
    """
    if not isinstance(encoded, str):
        raise NotAnImage(f"its data is no base64 text but {type(encoded).__name__}")
    try:
        data = _decoded(encoded)
    except (binascii.Error, ValueError):
        raise NotAnImage("its data is not base64") from None
    try:
        media_type, across, down = header(data)
    except (struct.error, IndexError):
        raise NotAnImage(_SHORT) from None
    if media_type != claimed:
        raise NotAnImage(f"its data is {media_type}")
    if across < 1 or down < 1 or across * down > _PIXELS:
        raise NotAnImage(f"it has {across} x {down} pixels, more than the {_PIXELS:,} that can be shown")
    image = Image(media_type=media_type, width=across, height=down, data=data)
    if across <= width and down <= height:
        return image, None
    return _scaled(image, width, height)


def _decoded(encoded: str) -> bytes:
    """Base64 as programs write it, and where that fails, as mails do: with white space."""
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return base64.b64decode("".join(encoded.split()), validate=True)


def header(data: bytes) -> tuple[MediaType, int, int]:
    """Return media type, width and height from the first bytes of an encoded picture."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        return "image/png", *struct.unpack(">II", data[16:24])
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg", *_jpeg_size(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp", *_webp_size(data)
    raise NotAnImage("its data has no header of PNG, JPEG or WebP")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    position = 2
    while True:
        while data[position] == 0xFF:  # any number of fill bytes
            position += 1
        marker = data[position]
        (length,) = struct.unpack(">H", data[position + 1 : position + 3])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            down, across = struct.unpack(">HH", data[position + 4 : position + 8])
            return across, down
        position += 1 + length
        if data[position] != 0xFF:
            raise NotAnImage("its JPEG markers are broken")


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 ":
            across, down = struct.unpack("<HH", data[26:30])
            return across & 0x3FFF, down & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack("<I", data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case _:
            raise NotAnImage("its WebP header is broken")


def _scaled(image: Image, width: int, height: int) -> tuple[Image, str]:
    from PIL import Image as Pillow  # noqa: PLC0415 - 40 ms at start, needed almost never

    size = fitting((image.width, image.height), (width, height))
    out = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # _PIXELS is the limit here, not Pillow's
            with Pillow.open(io.BytesIO(image.data)) as picture:
                picture.resize(size, Pillow.Resampling.LANCZOS).save(out, "PNG", compress_level=1)
    except Exception as error:
        raise NotAnImage(f"it can't be decoded ({type(error).__name__})") from None
    sentence = scaled_sentence((image.width, image.height), size, (width, height))
    return Image(media_type="image/png", width=size[0], height=size[1], data=out.getvalue()), sentence
