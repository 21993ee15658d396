"""Cells of a run, made at home in a process that is no kernel of ours: a stock Jupyter kernel, or plain Python.

    from cellwright_kernel.runtime import prepare
    await prepare(globals(), "browser", "pyautogui", "screen")

Flows in: the variables that cells share, and what they need. Flows out: the names of `python/namespace.py`, defined; where
IPython runs, also `%%exec_js`. Decided here: that the same parts stand behind these names as in a sandbox, on the display that
DISPLAY names; that Chromium is started only where CELLWRIGHT_CDP names none; and that all of it ends with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, Final, cast

from cellwright_kernel.clipboard.clipboard import WHERE
from cellwright_kernel.params import environment, given
from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.python.asyncio_run import allow_asyncio_run
from cellwright_kernel.python.browser import BrowserLink
from cellwright_kernel.python.clipboard import prepare_pyperclip
from cellwright_kernel.python.figures import Figures
from cellwright_kernel.python.namespace import Namespace, prepare_pyautogui
from cellwright_kernel.python.origin import Origin, set_latest
from cellwright_kernel.runtime.chromium import started_chromium
from cellwright_kernel.runtime.copied import started_clipboard
from cellwright_kernel.runtime.javascript import JavaScript
from cellwright_kernel.runtime.notebook import let_cells_be_driven, offer_exec_js
from cellwright_kernel.runtime.show import PlainShow

_PARTS: Final = frozenset({"browser", "clipboard", "javascript", "pyautogui", "screen", "ui"})
_ON_A_DISPLAY: Final = _PARTS - {"javascript"}
_NO_DISPLAY: Final = (
    "These cells use {}, and DISPLAY names no display. Nothing has run. Start this where a desktop is, or on one of its own: "
    "`xvfb-run -s '-screen 0 1440x1000x24' COMMAND`."
)


class Prepared:
    """What was prepared in this process; there is one.

    Args:
        show: Does what `log` and `display` do.
    """

    def __init__(self, show: PlainShow) -> None:
        self.show = show
        self.javascript = JavaScript(show)
        self._ending = ExitStack()
        self._after_import = AfterImport()
        self._after_import.install()
        self._link = BrowserLink(show.notice, self._after_import, os.dup(2))
        self.figures = Figures(cast("Any", show), self._after_import)
        self._namespace: Namespace | None = None
        set_latest(Origin(0, {}))  # for what asks whose turn it is: a dialog of a page, say
        prepare_pyperclip(self._after_import)

    async def define(self, variables: dict[str, Any], needs: frozenset[str], params: Mapping[str, str]) -> None:
        """Start what cells need, and define its names."""
        if params:
            os.environ.update(environment(params))  # for Node
            variables.update(given())
        if self._namespace is None:
            allow_asyncio_run(asyncio.get_running_loop())
            shell = SimpleNamespace(user_ns=variables, user_ns_hidden={}, given={})
            self._namespace = Namespace(cast("Any", shell), cast("Any", self.show), self._link)
        if needs & _ON_A_DISPLAY and not os.environ.get("DISPLAY"):
            raise RuntimeError(_NO_DISPLAY.format(", ".join(sorted(needs & _ON_A_DISPLAY))))
        if "DISPLAY" in os.environ and "pyautogui" not in sys.modules:
            prepare_pyautogui()
        if needs & {"browser", "ui"} and "CELLWRIGHT_CDP" not in os.environ:
            await asyncio.to_thread(started_chromium, self._ending, self._folder("browser"))
        if "clipboard" in needs and WHERE not in os.environ:
            await asyncio.to_thread(started_clipboard, self._ending, self._folder("clipboard"))
        names = needs | ({"context", "page"} if "browser" in needs else set())
        await self._namespace.bind(" ".join(names), None)

    async def refresh(self, code: str) -> None:
        """Before a cell: have `page` be a living one, where the cell names it."""
        if self._namespace is not None:
            await self._namespace.bind(code, None)

    def close(self) -> None:
        """End everything that was started; safe to call twice."""
        self.javascript.close()
        self._ending.close()

    def _folder(self, name: str) -> Path:
        return Path(self._ending.enter_context(tempfile.TemporaryDirectory(prefix=f"cellwright-{name}-")))


_prepared: list[Prepared] = []


def the_prepared(show: PlainShow | None = None) -> Prepared:
    """Return what this process has; made, with this way to show things, when it is first asked for."""
    if not _prepared:
        _prepared.append(Prepared(show or PlainShow()))
        atexit.register(_prepared[0].close)
    return _prepared[0]


async def prepare(
    variables: dict[str, Any],
    *needs: str,
    files: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
) -> None:
    """Define what the cells of a run expect to find, in a notebook; a second call adds what is new.

    Args:
        variables: `globals()`.
        needs: Of `browser`, `clipboard`, `javascript`, `pyautogui`, `screen` and `ui` what cells use; `log` and `display` are
            always there.
        files: Path below the current folder -> content in base64; those that are there already are left alone.
        params: What cells find as `params`; absent: there is no such name.

    Raises:
        ValueError: There is no such part, or a path leads out of the current folder. Nothing was started.
        RuntimeError: There is no display, or no Chromium.
    """
    needed = checked(needs)
    write_files(files or {})
    shell = _ipython()
    prepared = the_prepared()
    if shell is not None:
        let_cells_be_driven(shell)
        offer_exec_js(shell, prepared.javascript)
    await prepared.define(variables, needed, params or {})


def checked(needs: tuple[str, ...]) -> frozenset[str]:
    """Return what is needed; raises ValueError as `prepare` does."""
    if unknown := sorted(set(needs) - _PARTS):
        raise ValueError(f"{unknown[0]!r} is no part of the runtime. It has: {', '.join(sorted(_PARTS))}.")
    return frozenset(needs)


def write_files(files: Mapping[str, str]) -> None:
    """Write files below the current folder that are not there; raises ValueError for a path that leads out of it."""
    here = Path.cwd().resolve()
    for path, content in files.items():
        target = (here / PurePosixPath(path)).resolve()
        if not target.is_relative_to(here) or target == here:
            raise ValueError(f"{path!r} leads out of the current folder. It was not written.")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(base64.b64decode(content))


def _ipython() -> Any:
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
