"""What Node asks of `ui` -> answers.

Flows in: Node's calls, each with what its own Playwright said of the pages. Flows out: trees and elements as JSON.
Decided here: each call is a background task in a thread of its own loop, which ends with the call or with the cell's
interrupt; a box has x, y, width and height, and an outline travels with its tree.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cellwright_kernel.boxes import Box
    from cellwright_kernel.screen.loop_thread import LoopThread
    from cellwright_kernel.ui.elements import Element, Tree
    from cellwright_kernel.ui.looking import Looking

Message = dict[str, Any]

_AT_MOST: Final = 1_000
"""Elements that one answer carries."""


class UiCalls:
    """Does what Node asks of `ui`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._looking: Looking | None = None
        self._waits: set[Future[Any]] = set()

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Do one call: what the pages say, and what is asked of all."""
        future = self._begun(name, *arguments)
        self._waits.add(future)
        try:
            return future.result()
        finally:
            self._waits.discard(future)

    def cancel(self) -> None:
        """End the calls of a cell that was interrupted."""
        for wait in tuple(self._waits):
            wait.cancel()

    def _begun(self, name: str, pages: list[Message], *asked: Any) -> Future[Any]:
        """Begin to look; what that needs is loaded when it is first asked for."""
        from cellwright_kernel.screen.loop_thread import LoopThread  # noqa: PLC0415 - as it says
        from cellwright_kernel.ui.looking import Looking  # noqa: PLC0415 - the same

        display = os.environ.get("DISPLAY")
        if not display:
            raise RuntimeError("There is no desktop in this session.")
        with self._lock:
            if self._thread is None or self._looking is None:
                self._thread, self._looking = LoopThread("ui"), Looking(display)
        return self._thread.submit(_answered(self._looking, name, pages, *asked))


async def _answered(looking: Looking, asked: str, pages: list[Message], *arguments: Any) -> Any:
    from cellwright_kernel.ui.elements import is_window  # noqa: PLC0415 - loaded already

    if asked == "in_sight":
        return await looking.in_sight(pages)
    role, name, exact, window = arguments
    tree = await looking.look(pages, is_for_windows=asked == "find" and is_window(role))
    if asked == "tree":
        return _plain_tree(tree.of_window(window))
    found = tree.find(role, name, exact=bool(exact), window=window)
    return {
        "elements": [_plain(one, is_whole=False) for one in found[:_AT_MOST]],
        "missing": found.missing,
        "isWhole": found.is_whole,
    }


def _plain_tree(tree: Tree) -> Message:
    windows = [_plain(window, is_whole=True) for window in tree.windows]
    return {"windows": windows, "problems": list(tree.problems), "outline": str(tree)}


def _plain(element: Element, *, is_whole: bool) -> Message:
    x, y = element.center if element.seen else (None, None)
    plain: Message = {
        "role": element.role,
        "name": element.name,
        "box": _box(element.box),
        "center": None if x is None else {"x": x, "y": y},
        "states": list(element.states),
        "value": element.value,
        "note": element.note,
        "described": element.described(),
    }
    if is_whole:
        plain["children"] = [_plain(child, is_whole=True) for child in element.children]
    return plain


def _box(box: Box | None) -> dict[str, int] | None:
    return box and dict(zip(("x", "y", "width", "height"), box, strict=True))
