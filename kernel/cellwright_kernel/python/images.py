"""Whatever can be shown as a picture -> one encoded image.

Flows in: a PIL image, encoded bytes, a path, a base64 string, a figure, an array, or an object with an image repr.
Flows out: one encoded image that decodes, with its size. Decided here: what counts as a picture, how it is encoded, and
that one far larger than anybody shows is scaled before that: a picture of 20,000 x 20,000 pixels took 8 s to encode,
then 0.5 s. Nothing heavy is imported before something needs it: an object can only be an instance of a class whose
module is there.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import sys
import warnings
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright_kernel.scaling import fitting, scaled_sentence

_PNG_LEVEL = 1
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_DATA_URL = re.compile(r"data:image/[a-z.+-]+;base64,", re.IGNORECASE)
_MAX_PATH_CHARS = 4096
_MOST_PIXELS = 16_000_000
"""A picture with more is scaled here; a desktop of 5120x2880 has fewer."""
_SHOWN = (2048, 2048)
_REDUCIBLE = frozenset({"L", "RGB", "CMYK", "YCbCr", "HSV", "LAB", "I", "F"})
"""Modes that Pillow averages without a copy of the whole."""
_IMAGE_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")


SHOWN_FIGURES: weakref.WeakSet[Any] = weakref.WeakSet()
"""The figures that were turned into pictures since the cell began."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One encoded image that is known to decode."""

    media_type: str
    width: int
    height: int
    data: bytes
    notice: str | None = None
    """What is to be said before it, such as that it was scaled."""


def from_object(value: Any) -> Picture | None:
    """A picture of an object that is one by its type: PIL image or figure. None for anything else."""
    if _is(value, "PIL.Image", "Image"):
        return encode(value)
    if _is(value, "matplotlib.figure", "Figure"):
        return from_figure(value)
    return None


def from_anything(value: Any) -> Picture | None:
    """A picture of what `display` was given; None when it is not one.

    Raises:
        ValueError: It says that it is an image and does not decode.
    """
    picture = from_object(value)
    if picture is not None:
        return picture
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return from_bytes(data) if data.startswith(_IMAGE_MAGIC) else None
    if isinstance(value, Path):
        return _from_path(value)
    if isinstance(value, str):
        return _from_text(value)
    if _is(value, "numpy", "ndarray"):
        return _from_array(value)
    return None


def from_bytes(data: bytes) -> Picture:
    """Check encoded bytes; other formats that Pillow reads are turned into PNG.

    Raises:
        ValueError: They do not decode.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
            image.load()
    except Image.DecompressionBombError:
        raise ValueError(
            f"these {len(data)} bytes are an image of too many pixels. Show a part of it, or scale it down."
        ) from None
    except Exception as error:
        reason = "their format is not known" if isinstance(error, UnidentifiedImageError) else str(error)
        raise ValueError(f"these {len(data)} bytes do not decode as an image: {reason}") from None
    media_type = _MEDIA_TYPES.get(str(image.format))
    if media_type is None or getattr(image, "is_animated", False) or _is_huge(image.size):
        return encode(image)
    return Picture(media_type, image.width, image.height, data)


def encode(image: Any) -> Picture:
    """A PIL image as PNG."""
    from cellwright_kernel.screen import png

    if 0 in image.size:
        raise ValueError(f"an image of {image.width} x {image.height} pixels has nothing to show")
    notice = None
    if _is_huge(image.size):
        size, image = image.size, _scaled(image)
        notice = scaled_sentence(size, image.size, _SHOWN)
    if image.mode not in {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}:
        image = image.convert("RGBA" if "A" in image.mode or "a" in image.mode else "RGB")
    return Picture("image/png", image.width, image.height, png.encode(image), notice)


def from_figure(figure: Any) -> Picture:
    """A matplotlib figure, without closing it."""
    from PIL import Image

    file = io.BytesIO()
    if figure.canvas is None or not hasattr(figure.canvas, "print_png"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure)
    options = {"pil_kwargs": {"compress_level": _PNG_LEVEL}, "facecolor": figure.get_facecolor()}
    dpi, notice = _dots_per_inch(figure)
    figure.canvas.print_figure(file, format="png", bbox_inches="tight", dpi=dpi, **options)
    SHOWN_FIGURES.add(figure)
    data = file.getvalue()
    with Image.open(io.BytesIO(data)) as image:
        return Picture("image/png", image.width, image.height, data, notice)


def _dots_per_inch(figure: Any) -> tuple[float, str | None]:
    """Its own resolution, or a lower one and a sentence about that."""
    width, height = (round(inches * figure.dpi) for inches in figure.get_size_inches())
    if not _is_huge((width, height)):
        return figure.dpi, None
    dpi = 0.95 * figure.dpi * min(_SHOWN[0] / width, _SHOWN[1] / height)  # a margin is added around it
    return dpi, (
        f"The next figure was drawn at {dpi:.3g} dots per inch instead of {figure.dpi:g}, at which it has {width} x {height} pixels."
    )


def _is_huge(size: tuple[int, int]) -> bool:
    return size[0] * size[1] > _MOST_PIXELS


def _scaled(image: Any) -> Any:
    """A huge PIL image within `_SHOWN`, at little memory besides its own."""
    from PIL.Image import Resampling

    width, height = fitting(image.size, _SHOWN)
    if image.mode in _REDUCIBLE:
        rough = image.reduce(max(1, min(image.width // width, image.height // height)))
    else:
        rough = image.resize((2 * width, 2 * height), Resampling.NEAREST)
    return rough.resize((width, height), Resampling.LANCZOS)


def _from_path(path: Path) -> Picture | None:
    try:
        data = path.expanduser().read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be shown: {error.strerror}") from error
    return from_bytes(data)


def _from_text(text: str) -> Picture | None:
    """A path of an image file, base64 or a data URL. Any other string is a string."""
    match = _DATA_URL.match(text)
    if match:
        return from_bytes(_decoded(text[match.end() :]))
    if len(text) <= _MAX_PATH_CHARS and "\n" not in text and "\0" not in text:
        path = Path(text).expanduser()
        if path.suffix and path.is_file():
            with path.open("rb") as file:
                head = file.read(12)
            return _from_path(path) if head.startswith(_IMAGE_MAGIC) else None
    if text.startswith(("iVBORw0KGgo", "/9j/", "UklGR")):  # how PNG, JPEG and WebP begin in base64
        return from_bytes(_decoded(text))
    return None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise ValueError(f"this base64 text does not decode: {error}") from error


def _from_array(array: Any) -> Picture | None:
    """An array of bytes in the shape of a picture: rows x columns, with 1, 3 or 4 channels."""
    from PIL import Image

    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in {1, 3, 4})
    if array.dtype.name != "uint8" or not shaped or 0 in array.shape:
        return None
    return encode(Image.fromarray(array.squeeze(axis=2) if array.ndim == 3 and array.shape[2] == 1 else array))


def _is(value: Any, module: str, name: str) -> bool:
    """Whether it is an instance of a class, without importing the class."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name, ()))
