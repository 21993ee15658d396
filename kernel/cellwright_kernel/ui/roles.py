"""AT-SPI's roles and states -> ARIA's, so that one word finds a button of a page and of a native program.

Flows in: role names and state bits as programs say them. Flows out: roles and states as Playwright says them of pages.
Decided here: what corresponds to what; a role without a counterpart keeps its own name; which roles only hold others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_ARIA: Final = {
    "push button": "button",
    "toggle button": "button",
    "push button menu": "button",
    "check box": "checkbox",
    "radio button": "radio",
    "text": "textbox",
    "entry": "textbox",
    "password text": "textbox",
    "combo box": "combobox",
    "spin button": "spinbutton",
    "list box": "listbox",
    "list item": "listitem",
    "menu bar": "menubar",
    "menu item": "menuitem",
    "check menu item": "menuitemcheckbox",
    "radio menu item": "menuitemradio",
    "page tab": "tab",
    "page tab list": "tablist",
    "progress bar": "progressbar",
    "level bar": "meter",
    "scroll bar": "scrollbar",
    "tool bar": "toolbar",
    "tool tip": "tooltip",
    "status bar": "status",
    "statusbar": "status",
    "table cell": "cell",
    "table row": "row",
    "table column header": "columnheader",
    "column header": "columnheader",
    "row header": "rowheader",
    "tree item": "treeitem",
    "tree table": "treegrid",
    "image": "img",
    "icon": "img",
    "label": "text",
    "static": "text",
    "file chooser": "dialog",
    "color chooser": "dialog",
    "frame": "window",
}
HOLDERS: Final = frozenset(
    {
        *("generic", "none", "presentation", "filler", "panel", "section", "viewport", "unknown", "grouping", "group"),
        *("scroll pane", "split pane", "layered pane", "root pane", "glass pane", "option pane", "redundant object"),
    }
)
"""Roles that say nothing but that others are within; without a name, such an element is left out and its children are
kept."""

_STATES: Final = {
    3: "busy",
    4: "checked",
    10: "expanded",
    12: "focused",
    16: "modal",
    20: "pressed",
    23: "selected",
    32: "mixed",
    33: "required",
    36: "invalid",
    43: "readonly",
}
"""By the numbers of AT-SPI's list."""
_SENSITIVE: Final = 24
_SHOWING: Final = 25
_ENABLED: Final = 8


def aria_role(name: str) -> str:
    """Return the role as pages say it."""
    plain = " ".join(name.split()).casefold()
    return _ARIA.get(plain, plain)


def states_of(words: Iterable[int], role: str) -> tuple[str, ...]:
    """Return the states of an element as pages say them, from AT-SPI's two words of 32 bits."""
    bits = _bits(words)
    said = [name for number, name in _STATES.items() if bits >> number & 1]
    if role != "text" and not (bits >> _SENSITIVE & 1 or bits >> _ENABLED & 1):
        said.append("disabled")
    return tuple(said)


def is_showing(words: Iterable[int]) -> bool:
    """Whether an element is drawn, as far as its program knows."""
    return bool(_bits(words) >> _SHOWING & 1)


def _bits(words: Iterable[int]) -> int:
    return sum(word << 32 * at for at, word in enumerate(words))
