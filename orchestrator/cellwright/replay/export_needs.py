"""What of the runtime the cells of a run use, read from the words of their code.

Flows in: cells. Flows out: names for `cellwright_kernel.runtime`. Decided here: a word is enough, wherever it stands: what is
started in vain costs a second, what is missing ends the notebook.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cellwright.record import StoredCell

_NEEDS: Final = {
    "browser": re.compile(r"\b(?:browser|context|page)\b"),
    "clipboard": re.compile(r"\b(?:clipboard|pyperclip)\b"),
    "pyautogui": re.compile(r"\bpyautogui\b"),
    "screen": re.compile(r"\bscreen\b"),
    "ui": re.compile(r"\bui\b"),
}


def needs_of(cells: Iterable[StoredCell]) -> tuple[str, ...]:
    """Return what the cells need, in the order of the alphabet."""
    found: set[str] = set()
    for cell in cells:
        found |= {name for name, word in _NEEDS.items() if word.search(cell.opened.code)}
        if cell.opened.language == "javascript":
            found.add("javascript")
    return tuple(sorted(found))
