"""Windows, programs and pages -> one tree.

Flows in: the display, the bus, and what a kernel's Playwright said of its pages. Flows out: a `Tree`. Decided here:
which window a page or a program's window stands in; that what lies under another window is `covered`; that every window
is in the tree, also one of whose program nothing is known; that a display which gives no answer is told of; and what of
the screen counts as unread: a page that did not answer, or native programs while a window of one is there.

Measured on two shared cores that had ten others to serve (Debian 12, medians): a page with 200 elements 79 ms from
Python and 41 from JavaScript, of which Playwright's snapshot is 19; with a GTK dialog beside it 110; windows alone 3. A
session in which no cell names `ui` pays for a socket; with it 8 MB in the kernel, and 2 for bus and registry (PSS).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cellwright_kernel.boxes import Box, overlap
from cellwright_kernel.devtools_http import told
from cellwright_kernel.screen.pictures import OwnConnection
from cellwright_kernel.ui.elements import MUTE, Element, Tree, clean
from cellwright_kernel.ui.pages import PageReader, place_of, title_of, within
from cellwright_kernel.ui.programs import Programs, ProgramWindow, Said
from cellwright_kernel.ui.windows import Window, program_of, windows_of

_DISPLAY_S: Final = 3.0
_LIST_S: Final = 1.0
_DIALOGS: Final = frozenset({"dialog", "alert"})
SILENT: Final = "it does not answer"

Raw = Mapping[str, Any]
"""What a kernel's Playwright said of one page; see `PageReader`."""


class Looking:
    """Looks at one desktop; all looks belong to one event loop.

    Args:
        display: Its name, such as `:1`.
    """

    def __init__(self, display: str) -> None:
        self._display = display
        self._connection = OwnConnection(display)
        self._programs = Programs(os.environ.get("AT_SPI_BUS_ADDRESS"))

    async def look(self, pages: Sequence[Raw], *, is_for_windows: bool = False) -> Tree:
        """Return what is on the screen.

        Args:
            pages: What the pages said.
            is_for_windows: True: only windows are asked for, nothing of what is in them.

        Raises:
            TimeoutError: the display does not answer.
            ConnectionError: it is gone.
        """
        windows = await self._windows()
        said = None if is_for_windows else await self._programs.ask()
        return assembled(windows, said, pages)

    async def in_sight(self, pages: Sequence[Raw]) -> list[bool]:
        """Return which pages are in sight: of each window one tab; pages that Playwright drives all say they are.

        Args:
            pages: What they said, as yet without snapshots.

        Raises:
            TimeoutError: the display does not answer.
            ConnectionError: it is gone.
        """
        if len(pages) < 2:
            return ["measure" in page for page in pages]
        windows = await self._windows()
        latest: list[tuple[str, str]] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DISPLAY_S):
                latest = await asyncio.to_thread(_latest_pages, os.environ.get("CELLWRIGHT_CDP", ""))
        return chosen(windows, latest, pages)

    async def _windows(self) -> list[Window]:
        try:
            async with asyncio.timeout(_DISPLAY_S):
                return await asyncio.to_thread(self._windows_now)
        except TimeoutError:
            raise TimeoutError(
                f"The display {self._display} did not answer for {_DISPLAY_S:g} s. Usually its server is stopped or "
                "busy. Variables are kept."
            ) from None

    def _windows_now(self) -> list[Window]:
        try:
            return self._windows_once()
        except ConnectionError:  # the display may have been started again since the last look
            return self._windows_once()

    def _windows_once(self) -> list[Window]:
        with self._connection.use() as display:
            return windows_of(display)


def assembled(windows: Sequence[Window], said: Said | None, pages: Iterable[Raw]) -> Tree:
    """Return the tree of windows, topmost first, with what programs and pages said; None: programs were not asked."""
    inside: list[list[Element]] = [[] for _ in windows]
    loose, hidden, problems = [], [], list(said.problems) if said else []
    are_browsers = [_is_browser(window) for window in windows]
    unread = [] if all(are_browsers) else list(problems)
    of_program, unplaced = _matched(windows, said.windows if said else ())
    for raw in pages:
        if problem := raw.get("problem"):
            problems.append(clean(problem, 500))
            unread += problems[-1:] if "url" in raw or any(are_browsers) else ()
            continue
        reader = PageReader(raw)
        page = reader.page()
        problems += reader.problems
        unread += reader.problems
        if page is None:
            hidden.append(_hidden(raw))
        elif (at := _window_of(page, windows)) is None:
            loose.append(page)
        else:
            inside[at].append(within(page, _as_element(windows[at])))
    loose += unplaced
    tops = []
    for at, window in enumerate(windows):
        top = _top(window, of_program.get(at), inside[at], said)
        above = [other.box for other in windows[:at] if not other.is_minimized]
        tops.append(replace(top, children=tuple(_covered(child, above) for child in top.children)))
    return Tree((*loose, *tops, *hidden), tuple(problems), tuple(unread))


def chosen(windows: Sequence[Window], latest: Sequence[tuple[str, str]], pages: Sequence[Raw]) -> list[bool]:
    """Return which pages are in sight: of those that fill a window the one with its title, else the one shown last.

    Args:
        windows: Topmost first.
        latest: Addresses and titles of pages, the one shown last first.
        pages: What they said.
    """
    order = {page: -at for at, page in reversed(list(enumerate(latest)))}
    waiting = {at: place for at, raw in enumerate(pages) if (place := place_of(raw))}
    is_shown = [False] * len(pages)
    for window in windows:
        fitting = [at for at, place in waiting.items() if not window.is_dialog and overlap(place, window.box) == place]

        def how_well(at: int, window: Window = window) -> tuple[bool, int]:
            title = title_of(pages[at])
            return _has_title(window, title), order.get((clean(pages[at].get("url", "")), title), -len(latest))

        if fitting:
            best = max(fitting, key=how_well)
            is_shown[best] = True
            del waiting[best]
    return is_shown


def _latest_pages(address: str) -> list[tuple[str, str]]:
    """Return Chromium's pages as it lists them, the one that was shown last first; none when it does not answer."""
    try:
        listed = told(address, "/json/list", _LIST_S)
        return [(clean(one["url"]), clean(one["title"])) for one in listed if one["type"] == "page"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _as_element(window: Window) -> Element:
    states = [state for state, holds in (("active", window.is_active), ("minimized", window.is_minimized)) if holds]
    whose = f"{window.program}, pid {window.pid}" if window.pid else window.program or "of an unknown program"
    seen = None if window.is_minimized else window.box
    return Element(
        "dialog" if window.is_dialog else "window", window.title, window.box, tuple(states), "", whose, (), seen
    )


def _top(window: Window, told: Element | None, pages: list[Element], said: Said | None) -> Element:
    """Return a window with what is in it."""
    top = _as_element(window)
    children = (*pages, *(told.children if told else ()))
    if window.is_minimized:
        children = tuple(_out_of_sight(child) for child in children)
    if told is not None:
        role = "dialog" if told.role in _DIALOGS else top.role
        more = tuple(state for state in told.states if state == "modal")
        return replace(top, role=role, states=top.states + more, children=children)
    if children or said is None:
        return replace(top, children=children)
    is_silent = window.is_stopped or window.pid in said.silent
    return replace(top, note=f"{top.note}; {SILENT if is_silent else MUTE}")


def _matched(windows: Sequence[Window], told: Iterable[ProgramWindow]) -> tuple[dict[int, Element], list[Element]]:
    """Return what programs tell of their windows, by the windows' numbers; and the rest."""
    found: dict[int, Element] = {}
    rest: list[Element] = []
    for one in told:
        free = [at for at, window in enumerate(windows) if window.pid == one.pid and at not in found]
        box = one.element.box
        same = [at for at in free if windows[at].title == one.element.name]
        near = same or [at for at in free if overlap(windows[at].box, box)]
        if one.element.role in {"window", *_DIALOGS} and near:
            at = max(near, key=lambda at: _area(overlap(windows[at].box, box)))
            found[at] = one.element
        else:
            rest.append(replace(one.element, note=f"of {program_of(one.pid)}, pid {one.pid}"))
    return found, rest


def _window_of(page: Element, windows: Sequence[Window]) -> int | None:
    """Return which window a page stands in: the one with its title, else the one that it fills most of."""
    fitting = [at for at, window in enumerate(windows) if overlap(window.box, page.box) and not window.is_dialog]
    if not fitting:
        return None

    def how_well(at: int) -> tuple[bool, bool, int]:
        window = windows[at]
        return _is_browser(window), _has_title(window, page.name), _area(overlap(window.box, page.box))

    return max(fitting, key=how_well)


def _is_browser(window: Window) -> bool:
    return "chrom" in window.program.casefold()


def _has_title(window: Window, title: str) -> bool:
    return bool(title) and window.title.startswith(title.rstrip("…"))


def _hidden(raw: Raw) -> Element:
    return Element("page", title_of(raw), None, ("hidden",), "", clean(raw.get("url", "")))


def _covered(element: Element, above: Sequence[Box]) -> Element:
    if not above:
        return element
    children = tuple(_covered(child, above) for child in element.children)
    if element.seen is None or element.role == "page":  # its middle says nothing of what is in it
        return replace(element, children=children)
    x, y = element.center
    is_under = any(left <= x < left + width and top <= y < top + height for left, top, width, height in above)
    return replace(element, children=children, states=(*element.states, "covered") if is_under else element.states)


def _out_of_sight(element: Element) -> Element:
    return replace(element, seen=None, children=tuple(map(_out_of_sight, element.children)))


def _area(box: Box | None) -> int:
    return box[2] * box[3] if box else 0
