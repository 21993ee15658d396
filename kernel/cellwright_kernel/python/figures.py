"""matplotlib's figures: each is shown once.

Flows in: matplotlib and pyplot, when a cell imports them; the end of each cell. Flows out: pictures of the figures that
were shown, or left open. Decided here: as in a notebook, `plt.show()` shows the open figures and closes them, and what is
still open at the cell's end is shown and closed then; a figure that the cell has displayed itself is not shown again. This
holds for every backend without windows, also one that the cell has chosen itself; a backend with windows keeps its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cellwright_kernel.python import images
from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.python.display import Show

_WITHOUT_WINDOWS = frozenset({"agg", "cairo", "pdf", "pgf", "ps", "svg", "template", "inline"})


class Figures:
    """What pyplot has open, and what of it has been shown."""

    def __init__(self, show: Show, after_import: AfterImport) -> None:
        self._show = show
        after_import.do("matplotlib", _prepare)
        after_import.do("matplotlib.pyplot", self._take_over)

    def after_cell(self) -> None:
        """Show what the cell has left open, and close it."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and _makes_pictures():
            self._show_open(pyplot)
        images.SHOWN_FIGURES.clear()

    def drop(self) -> None:
        """Close what the cell has left open."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and _makes_pictures():
            pyplot.close("all")
        images.SHOWN_FIGURES.clear()

    def _take_over(self, pyplot: ModuleType) -> None:
        original = pyplot.show

        def show(*args: Any, **options: Any) -> Any:
            if _makes_pictures():
                return self._show_open(pyplot)
            return original(*args, **options)

        show.__doc__ = original.__doc__
        pyplot.show = show  # type: ignore[attr-defined]

    def _show_open(self, pyplot: ModuleType) -> None:
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure not in images.SHOWN_FIGURES and figure.get_axes():
                self._show.picture(images.from_figure(figure))
        pyplot.close("all")


def _prepare(matplotlib: ModuleType) -> None:
    _prefer_pictures(matplotlib)
    _lend_font_list(matplotlib)


def _prefer_pictures(matplotlib: ModuleType) -> None:
    """Without a choice of its own, matplotlib would find the desktop and open a window that blocks the cell."""
    if not os.environ.get("MPLBACKEND"):
        matplotlib.rcParams["backend"] = "agg"


def _lend_font_list(matplotlib: ModuleType) -> None:
    """Looking for all fonts takes matplotlib 2 s; the runtime was built with the list of them."""
    with contextlib.suppress(OSError):
        for built in Path(sys.prefix, "share/cellwright/matplotlib").glob("fontlist-*.json"):
            target = Path(matplotlib.get_cachedir(), built.name)
            if not target.exists():
                shutil.copyfile(built, target)


def _makes_pictures() -> bool:
    """Whether the backend in use has no windows."""
    matplotlib = sys.modules["matplotlib"]
    name = str(matplotlib.get_backend()).lower().removeprefix("module://").rsplit(".", maxsplit=1)[-1]
    return name.removeprefix("backend_") in _WITHOUT_WINDOWS
