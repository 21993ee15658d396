"""Something to do as soon as a module has been imported, by whoever.

Flows in: module names and what to do with each. Flows out: nothing, until the import happens. Decided here: how it is
noticed, by a finder that stands first, lets the others find the module, and calls back once its code has run.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterImport(MetaPathFinder):
    """Calls back once per module, right after its import."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Callable[[ModuleType], None]] = {}
        self._finding: set[str] = set()

    def install(self) -> None:
        """Stand first."""
        sys.meta_path.insert(0, self)

    def do(self, name: str, callback: Callable[[ModuleType], None]) -> None:
        """Call back when `name` is imported."""
        self._callbacks[name] = callback

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Python asks here first; None sends it on to the others."""
        del path, target
        if fullname not in self._callbacks or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._finding.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._callbacks[fullname])
        return spec


class _CallingLoader(Loader):
    """The module's own loader, and the callback behind it."""

    def __init__(self, loader: Loader, callback: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback(module)
