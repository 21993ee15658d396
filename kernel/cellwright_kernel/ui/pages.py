"""What Playwright says of pages -> elements with boxes in pixels of the screen.

Flows in: for each page its ARIA snapshot as JSON, with boxes, and what it says of its window, its zoom and its frames.
Flows out: a `page` element each. Decided here: where a page's point is on the screen (the window's place, its own tool
bars, zoom, pinch, and the frames in between); what is in sight of an element; which elements only hold others; how many
are read, and what is said when there are more.

All of it is a page's word: numbers that are none, or beyond measure, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cellwright_kernel.boxes import Box, overlap
from cellwright_kernel.ui.elements import Element, clean
from cellwright_kernel.ui.roles import HOLDERS

MEASURE: Final = Path(__file__).with_name("page.js").read_text()
"""JavaScript: what a page says of where it is."""
FRAME: Final = Path(__file__).with_name("frame.js").read_text()
"""JavaScript: what an <iframe> says of where its document is."""

_FLAGS: Final = ("checked", "pressed", "expanded", "selected", "disabled", "invalid")
_FIELDS: Final = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider"})
_NOT_FOCUSED: Final = frozenset({"generic", "document", "iframe"})
"""The body is a page's active element while nothing is focused."""
_DEPTH: Final = 80
_MOST: Final = 5_000
_HOLDERS_MOST: Final = 20_000
"""Of those that only hold others, and are no elements of the tree."""
_FAR: Final = 1e6


@dataclass(frozen=True, slots=True)
class _Space:
    """A coordinate space: of a page, or of a frame in it."""

    x: float
    y: float
    across: float
    down: float
    sight: Box | None
    """What is in sight of it, in pixels of the screen."""

    def box(self, left: float, top: float, width: float, height: float) -> Box:
        """Return a box of this space in pixels of the screen."""
        x, y = self.x + left * self.across, self.y + top * self.down
        right, bottom = x + width * self.across, y + height * self.down
        return round(x), round(y), round(right) - round(x), round(bottom) - round(y)


class PageReader:
    """Makes elements of one page; at most so many of them are read.

    Args:
        raw: `url`; `measure` (what `MEASURE` gives), and of a page in sight `snapshot` and `frames` (by their
            references, what `FRAME` gives), and `left_out`, a sentence, when a frame did not answer; or a `problem`, when the
            page did not.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self._left = _MOST
        self._holders_left = _HOLDERS_MOST
        self._is_cut = self._is_too_deep = False

    def page(self) -> Element | None:
        """Return the page as an element; None when it is not in sight, or says nothing of where it is."""
        measure = self._raw.get("measure")
        space = _space_of(measure) if isinstance(measure, Mapping) else None
        if space is None or not measure or "snapshot" not in self._raw:
            return None
        children = self._elements(self._raw["snapshot"], space, 0)
        title, url = clean(measure.get("title", "")), self._url
        return Element("page", title, space.sight, note=url, children=tuple(children), seen=space.sight)

    @property
    def problems(self) -> tuple[str, ...]:
        """What of the page was left out, once it was read; a sentence each."""
        sentences = [clean(left_out, 500)] if (left_out := self._raw.get("left_out")) else []
        if self._is_cut:
            sentences.append(
                f"Only the first {_MOST:,} elements of the page {self._url} were read; the others are not listed: "
                "use Playwright's `page` for them."
            )
        if self._is_too_deep:
            sentences.append(
                f"Of the page {self._url} what lies more than {_DEPTH} elements deep was not read: use Playwright's "
                "`page` for that."
            )
        return tuple(sentences)

    @property
    def _url(self) -> str:
        return clean(self._raw.get("url", ""))

    def _elements(self, nodes: object, space: _Space, depth: int) -> Iterable[Element]:
        for node in nodes if isinstance(nodes, list) else ():
            self._is_too_deep |= depth > _DEPTH
            if self._is_cut or depth > _DEPTH:
                return
            if isinstance(node, str):
                node = {"role": "text", "text": node}  # noqa: PLW2901 - two forms of one thing
            if isinstance(node, Mapping):
                yield from self._element(node, space, depth)

    def _element(self, node: Mapping[str, Any], space: _Space, depth: int) -> Iterable[Element]:
        role, name, text = clean(node.get("role", "")), clean(node.get("name") or ""), clean(node.get("text") or "")
        value = text if role in _FIELDS or name else ""
        if not name and role not in _FIELDS:
            name = text
        is_holder = role in HOLDERS and not name and not value and node.get("cursor") != "pointer"
        if not self._may_read(is_holder=is_holder):
            return
        inner = self._inner_space(node, space) if role == "iframe" else space
        children = tuple(self._elements(node.get("children"), inner, depth + 1)) if inner else ()
        if is_holder:
            yield from children
            return
        box = _box_of(node, space)
        states = _states(node, role)
        seen = overlap(box, space.sight)
        if box is not None and seen is None:
            states = (*states, "offscreen")
        yield Element(role, name, box, states, "" if value == name else value, "", children, seen)

    def _may_read(self, *, is_holder: bool) -> bool:
        """Count one more; False: it is one too many, and it and what follows are left out."""
        if is_holder:
            self._holders_left -= 1
        else:
            self._left -= 1
        self._is_cut = self._left < 0 or self._holders_left < 0
        return not self._is_cut

    def _inner_space(self, node: Mapping[str, Any], space: _Space) -> _Space | None:
        frames = self._raw.get("frames")
        said = _numbers(frames.get(node.get("ref")) if isinstance(frames, Mapping) else None, 6)
        if not said:
            return None
        left, top, width, height, across, down = said
        inner = replace(
            space,
            x=space.x + left * space.across,
            y=space.y + top * space.down,
            across=space.across * across,
            down=space.down * down,
        )
        return replace(inner, sight=overlap(inner.box(0, 0, width, height), space.sight))


def place_of(raw: Mapping[str, Any]) -> Box | None:
    """Return where a page says it is on the screen."""
    measure = raw.get("measure")
    space = _space_of(measure) if isinstance(measure, Mapping) else None
    return space.sight if space else None


def title_of(raw: Mapping[str, Any]) -> str:
    """Return what a page calls itself."""
    measure = raw.get("measure")
    return clean(measure.get("title", "")) if isinstance(measure, Mapping) else ""


def within(page: Element, window: Element) -> Element:
    """Return the page with what is not within its window out of sight: a page cannot claim to be elsewhere."""
    if overlap(page.seen, window.box) == page.seen:
        return page
    children = tuple(within(child, window) for child in page.children)
    return replace(page, seen=overlap(page.seen, window.box), children=children)


def _space_of(measure: Mapping[str, Any]) -> _Space | None:
    inner, window = _numbers(measure.get("inner"), 2), _numbers(measure.get("window"), 4)
    pinch, zooms = _numbers(measure.get("pinch"), 3), _numbers([measure.get("zoom")], 1)
    if not (inner and window and pinch and zooms):
        return None
    (zoom,) = zooms
    width, height = inner[0] * zoom, inner[1] * zoom
    left = window[0] + (window[2] - width) / 2  # no window here has a frame of Chromium's own making
    top = window[1] + window[3] - height
    scale, aside, below = pinch
    sight = (round(left), round(top), round(width), round(height))
    return _Space(left - aside * zoom * scale, top - below * zoom * scale, zoom * scale, zoom * scale, sight)


def _box_of(node: Mapping[str, Any], space: _Space) -> Box | None:
    said = node.get("box")
    sides = [said.get(side) for side in ("x", "y", "width", "height")] if isinstance(said, Mapping) else None
    match _numbers(sides, 4):
        case [left, top, width, height] if width > 0 and height > 0:
            return space.box(left, top, width, height)
    return None


def _states(node: Mapping[str, Any], role: str) -> tuple[str, ...]:
    states = ["focused"] if node.get("active") is True and role not in _NOT_FOCUSED else []
    for flag in _FLAGS:
        match node.get(flag):
            case "mixed":
                states.append("mixed")
            case True | "grammar" | "spelling":
                states.append(flag)
    return tuple(states)


def _numbers(said: Any, count: int) -> list[float]:
    """Return so many numbers; none unless all are."""
    if not isinstance(said, list) or len(said) != count:
        return []
    are_numbers = all(isinstance(one, int | float) and math.isfinite(one) and abs(one) < _FAR for one in said)
    return said if are_numbers else []
