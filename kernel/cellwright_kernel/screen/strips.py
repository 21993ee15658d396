"""A picture a few rows at a time.

Flows in: an image, or whoever has its rows. Flows out: strips, each an image as wide as the whole, from top to bottom.
Decided here: how many rows. So many stay in the processor's cache, and in memory that the process has: to take a whole
screen into new memory and from there into bytes costs 9 ms of CPU where strips of 16 cost 4 (1440x900, in a virtual
machine, where new memory is dear).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from PIL import Image

STRIP_ROWS: Final = 16


@dataclass(frozen=True)
class Strips:
    """A picture that can be walked through from top to bottom, again and again."""

    mode: str
    """Pillow's name of what a pixel is, such as `RGB`."""
    size: tuple[int, int]
    """Width and height of the whole, in pixels."""
    rows: Callable[[int, int], Image.Image]
    """Gives the strip from one row to before another."""

    @classmethod
    def of(cls, image: Image.Image) -> Strips:
        """Return those of an image."""
        return cls(image.mode, image.size, lambda top, bottom: image.crop((0, top, image.width, bottom)))

    def __iter__(self) -> Iterator[Image.Image]:
        height = self.size[1]
        for top in range(0, height, STRIP_ROWS):
            yield self.rows(top, min(height, top + STRIP_ROWS))
