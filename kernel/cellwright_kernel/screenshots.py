"""Pictures of the whole desktop, as the outside gets them.

Flows in: a display, and the last picture that the caller knows. Flows out: PNG, size, and the hash of the pixels. Decided
here: that nothing is grabbed while nothing was drawn, and that one is the same as the last while no pixel changed; that rows
are hashed and deflated as they are at hand; that one is taken at a time; and that a picture which was given up leaves nothing to compare with.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from cellwright_kernel.malloc import give_back
from cellwright_kernel.screen import png
from cellwright_kernel.screen.pictures import OwnConnection, Pictures
from cellwright_kernel.screen_watch import ScreenWatch


@dataclass(frozen=True)
class Screenshot:
    """A picture of the whole desktop."""

    png: bytes
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    pixels_sha256: str
    """Hash of the raw RGB pixels, row by row, 64 hex digits: the same screen always has the same one."""


class Screenshots:
    """Takes them, of one display; connects with the first.

    Args:
        display: Its name, such as `:7`.
    """

    def __init__(self, display: str) -> None:
        self._display = display
        self._watch = ScreenWatch()
        self._connection = OwnConnection(display)
        self._pictures = Pictures(self._connection)
        self._is_watched = False
        self._last: Screenshot | None = None
        self._taking = asyncio.Lock()  # two at once would each count changes from a moment of their own

    @property
    def changed(self) -> bool:
        """False only when nothing was drawn since the last one."""
        return self._last is None or self._watch.changed

    async def take(self, known: Screenshot | None) -> Screenshot:
        """Take a picture, or return `known` when no pixel has changed since it.

        Raises:
            OSError: the display is gone.
        """
        async with self._taking:
            if not self._is_watched:
                await self._watch.start(self._display)
                self._is_watched = True
            if known is None or known is not self._last or self.changed:
                self._last = await self._grab(known)
            return self._last

    async def stop(self) -> None:
        """Give the connections back, once the server has ended; safe to call twice."""
        self._watch.stop()
        await asyncio.to_thread(self._connection.close)

    async def _grab(self, known: Screenshot | None) -> Screenshot:
        def grab() -> Screenshot:
            self._watch.begin_anew()
            try:
                return _picture(self._pictures, known)
            finally:
                give_back()

        try:
            return await asyncio.to_thread(grab)
        except OSError:
            self._watch.doubt()
            raise
        except asyncio.CancelledError:  # the thread goes on, and nobody gets what it brings
            self._last = None
            raise


def _picture(pictures: Pictures, known: Screenshot | None) -> Screenshot:
    with pictures.strips() as strips:
        pixels = hashlib.sha256()
        encoded = png.encode(strips, lambda strip: pixels.update(strip.tobytes()))
        width, height = strips.size
    taken = Screenshot(encoded, width, height, pixels.hexdigest())
    return known if known is not None and known.pixels_sha256 == taken.pixels_sha256 else taken
