"""tqdm's progress bars: as text.

Flows in: `tqdm.notebook`, when a cell imports it, by itself or by `tqdm.auto`. Flows out: nothing. Decided here: it gives the
bars of a terminal, because those of a notebook are widgets that nobody draws here; without them it would fail.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from cellwright_kernel.python.after_import import AfterImport


def prefer_plain_bars(after_import: AfterImport) -> None:
    """Have `from tqdm.notebook import tqdm` work."""
    after_import.do("tqdm.notebook", _with_plain_bars)


def _with_plain_bars(notebook: ModuleType) -> None:
    plain = importlib.import_module("tqdm.std")
    notebook.tqdm = notebook.tqdm_notebook = plain.tqdm  # type: ignore[attr-defined]
    notebook.trange = notebook.tnrange = plain.trange  # type: ignore[attr-defined]
    notebook.IProgress = plain.tqdm  # type: ignore[attr-defined] # not None: `tqdm.auto` would warn
