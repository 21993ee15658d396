"""Pictures for tests: real PNGs of a desktop's size that differ from each other, and cells that show them."""

from __future__ import annotations

import functools
import io

from PIL import Image


@functools.cache
def png(number: int, *, width: int = 1440, height: int = 1000) -> bytes:
    """Return a picture of its own for each number, small in bytes."""
    made = io.BytesIO()
    Image.new("L", (width, height), number % 256).save(made, "PNG")
    return made.getvalue()


def shows(*numbers: int) -> str:
    """Return the code of a cell that shows these pictures, in a fake sandbox."""
    return "\n".join(["from tests.pictures import png", *(f"display(png({number}))" for number in numbers)])
