"""What a cell finds defined.

Flows in: the names a cell mentions. Flows out: `log`, `display`, `time` from the start; `pyautogui`, `browser`, `context`
and `page` as soon as a cell mentions them. Decided here: what costs time or memory is there only once it is named; a name
that the model has given another meaning keeps it.
"""

from __future__ import annotations

import ast
import re
import time
from typing import Any

from cellwright_kernel.python.display import Show

BROWSER_NAMES = frozenset({"browser", "context", "page"})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Namespace:
    """The kernel's global variables, as far as they are ours."""

    def __init__(self, variables: dict[str, Any], show: Show) -> None:
        self._variables = variables
        self._show = show
        variables.update(log=show.log, display=show.display, time=time)

    async def bind(self, code: str, tree: ast.Module | None) -> None:
        """Define what this cell mentions and is not there yet."""

    def after_cell(self) -> None:
        """Show the figures that the cell has left open."""


def names_in(code: str, tree: ast.Module | None) -> frozenset[str]:
    """The names that code mentions; without a syntax tree, its words."""
    if tree is None:
        return frozenset(_WORD.findall(code))
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
