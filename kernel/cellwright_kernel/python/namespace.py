"""What a cell finds defined.

Flows in: the names a cell mentions. Flows out: `log`, `display`, `ask_user`, `time` and a run's `params` from the start; `pyautogui`, `screen`,
`clipboard`, `secrets`, `ui`, `browser`, `context` and `page` as soon as a cell mentions them. Decided here: what costs time or
memory is there only once it is named; a name that the model has given another meaning keeps it.
"""

from __future__ import annotations

import ast
import asyncio
import contextvars
import importlib
import os
import re
import sys
import time
from typing import Any

from cellwright_kernel import params
from cellwright_kernel.people.ask_user import ask_user
from cellwright_kernel.python.browser import BrowserHangs, BrowserLink
from cellwright_kernel.python.display import Show
from cellwright_kernel.python.shell import CellShell

_BROWSER_NAMES = ("browser", "context", "page")
_NO_BROWSER = "There is no browser in this session: `browser`, `context` and `page` are not there."
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MISSING = object()


class Namespace:
    """The kernel's global variables, as far as they are ours."""

    def __init__(self, shell: CellShell, show: Show, browser: BrowserLink) -> None:
        self._variables: dict[str, Any] = shell.user_ns
        self._show = show
        self._browser = browser
        self._bound: dict[str, Any] = {}
        shell.given = {"log": show.log, "display": show.display, "ask_user": ask_user, "time": time, **params.given()}
        self._variables.update(shell.given)
        shell.user_ns_hidden.update(shell.given)

    async def bind(self, code: str, tree: ast.Module | None) -> None:
        """Define what this cell mentions and is not there yet."""
        names = _names_in(code, tree)
        if "pyautogui" in names:
            self._bind_pyautogui()
        if "screen" in names and "DISPLAY" in os.environ:
            await self._bind_screen()
        if "clipboard" in names and "DISPLAY" in os.environ and self._is_free("clipboard"):
            from cellwright_kernel.clipboard.clipboard import Clipboard

            self._set("clipboard", self._bound.get("clipboard") or Clipboard())
        if "secrets" in names and "CELLWRIGHT_SECRETS" in os.environ and self._is_free("secrets"):
            from cellwright_kernel.python.secrets import BothSecrets

            self._set("secrets", self._bound.get("secrets") or BothSecrets())
        if "CELLWRIGHT_CDP" in os.environ:
            await self._bind_browser(names)
        elif any(name in names and name not in self._variables for name in _BROWSER_NAMES):
            self._show.notice(_NO_BROWSER)
        if "ui" in names and "DISPLAY" in os.environ:
            self._bind_ui()

    def _bind_pyautogui(self) -> None:
        if not self._is_free("pyautogui"):
            return
        try:
            self._set("pyautogui", importlib.import_module("pyautogui"))
        except Exception as error:
            self._show.notice(f"pyautogui is not there: {error}")

    async def _bind_screen(self) -> None:
        """From the cell on that first mentions it, the browser's requests are counted."""
        if not self._is_free("screen"):
            return
        try:
            from cellwright_kernel.python.screen import begun_screen

            self._set("screen", await begun_screen(self._bound.get("screen")))
        except Exception as error:
            self._show.notice(f"screen is not there: {error}")

    def _bind_ui(self) -> None:
        if not self._is_free("ui"):
            return
        try:
            from cellwright_kernel.python.ui import Ui

            self._set("ui", self._bound.get("ui") or Ui(lambda: self._browser.browser))
        except Exception as error:
            self._show.notice(f"ui is not there: {error}")

    async def _bind_browser(self, names: frozenset[str]) -> None:
        wanted = [name for name in _BROWSER_NAMES if self._is_free(name)]
        is_named = bool(names.intersection((*wanted, "ui")))  # `ui` reads pages through the same objects
        if not (is_named or (wanted and self._browser.is_kept)):
            return
        try:
            # in an empty context, so that what a page's event handler prints belongs to the cell that runs then
            loop = asyncio.get_running_loop()
            finding = self._browser.objects(is_named=is_named, page_is_ours="page" in wanted)
            attached = await loop.create_task(finding, context=contextvars.Context())
        except Exception as error:
            if is_named:
                self._tell_unreachable(error)
            return
        for name in wanted:
            self._set(name, getattr(attached, name))

    def _tell_unreachable(self, error: Exception) -> None:
        reason = str(error).partition("\n")[0]
        left = "those from before" if "browser" in self._bound else "not there"
        hangs = isinstance(error, BrowserHangs)
        advice = " If it goes on so, end its process: another one is started." if hangs else ""
        self._show.notice(
            f"The browser cannot be reached ({reason}); `browser`, `context` and `page` are {left}.{advice}"
        )

    def _is_free(self, name: str) -> bool:
        """Whether the name is undefined or still has the meaning that we gave it."""
        value = self._variables.get(name, _MISSING)
        return value is _MISSING or value is self._bound.get(name, _MISSING)

    def _set(self, name: str, value: Any) -> None:
        self._bound[name] = value
        self._variables[name] = value


def prepare_pyautogui() -> None:
    """Have `import pyautogui` give the one that is made ready for this desktop. Costs nothing until then."""
    display = os.environ.get("DISPLAY")
    if display:
        from cellwright_kernel.python.desktop_input import prepare_on_import

        prepare_on_import(display)


def release_keys() -> None:
    """Let go of what a cell that failed may still hold down."""
    if "pyautogui" in sys.modules:
        from cellwright_kernel.python.desktop_input import release_all

        release_all()


def _names_in(code: str, tree: ast.Module | None) -> frozenset[str]:
    """The names that code mentions; without a syntax tree, its words. What it assigns first is its own."""
    if tree is None:
        return frozenset(_WORD.findall(code))
    own: set[str] = set()
    used: set[str] = set()
    for statement in tree.body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        used |= {node.id for node in names if not isinstance(node.ctx, ast.Store)} - own
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom):
            own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return frozenset(used)
