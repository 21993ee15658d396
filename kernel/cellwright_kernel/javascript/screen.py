"""What Node asks of the screen -> answers.

Flows in: Node's calls of `screen`. Flows out: values that JSON can say. Decided here: a wait ends with its limit or
with the cell's interrupt; and the forms of the values: a picture is a PNG in base64, a region has x, y, width and
height, a time is in milliseconds.
"""

from __future__ import annotations

import asyncio
import base64
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cellwright_kernel.screen.screen import Screen

_BEGIN_S: Final = 3.0
_CALLS: Final = ("shot", "zoom", "settle", "changed", "find_text", "wait_text")


class ScreenCalls:
    """Does what Node asks of the screen."""

    def __init__(self) -> None:
        self._screen: Screen | None = None
        self._waits: set[Future[Any]] = set()

    async def begin(self) -> None:
        """Be ready for a cell that names the screen, if there is a desktop; from here on requests are counted."""
        try:
            async with asyncio.timeout(_BEGIN_S):
                await asyncio.wrap_future(self._there().begin())
        except Exception:  # the call itself will say it
            return

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Do one call."""
        return _plain(getattr(self._there(), _CALLS[_CALLS.index(name)])(*arguments))

    def cancel(self) -> None:
        """End the waits of a cell that was interrupted."""
        for wait in tuple(self._waits):
            wait.cancel()

    def _there(self) -> Screen:
        """The screen; what it needs is loaded when it is first named (40 MB)."""
        if self._screen is None:
            from cellwright_kernel.screen.pictures import OwnConnection, Pictures  # noqa: PLC0415 - as it says
            from cellwright_kernel.screen.screen import Screen  # noqa: PLC0415 - the same

            name = os.environ.get("DISPLAY")
            if not name:
                raise RuntimeError("There is no desktop in this session.")
            devtools = os.environ.get("CELLWRIGHT_CDP")
            self._screen = Screen(name, Pictures(OwnConnection(name)), devtools, self._wait)
        return self._screen

    def _wait(self, future: Future[Any], limit_s: float) -> Any:
        from cellwright_kernel.screen.screen import blocking  # noqa: PLC0415 - loaded already

        self._waits.add(future)
        try:
            return blocking(future, limit_s)
        finally:
            self._waits.discard(future)


def _plain(value: Any) -> Any:
    from PIL.Image import Image  # noqa: PLC0415 - loaded already

    from cellwright_kernel.screen import png  # noqa: PLC0415 - the same
    from cellwright_kernel.screen.screen import Change  # noqa: PLC0415 - the same
    from cellwright_kernel.screen.stillness import Settled  # noqa: PLC0415 - the same
    from cellwright_kernel.screen.text import Match  # noqa: PLC0415 - the same

    match value:
        case Image():
            return base64.b64encode(png.encode(value)).decode("ascii")
        case Settled():
            waited_ms = round(value.waited_s * 1000)
            return {
                "still": bool(value),
                "reason": value.reason,
                "waitedMs": waited_ms,
                "busy": list(value.busy),
                "drawn": _box(value.drawn),
            }
        case Change():
            return {"box": _box(value.box)} if value else None
        case Match():
            x, y = value.center
            return {
                "text": value.text,
                "box": _box(value.box),
                "center": {"x": x, "y": y},
                "confidence": value.confidence,
            }
        case list():
            return [_plain(one) for one in value]
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JavaScript.")


def _box(region: tuple[int, int, int, int] | None) -> dict[str, int] | None:
    return region and dict(zip(("x", "y", "width", "height"), region, strict=True))
