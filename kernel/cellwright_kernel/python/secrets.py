"""`secrets` as the Python kernel offers it, beside Python's own module of that name.

Flows in: the name, used with or without an import. Flows out: one object, or Python's module, each of which has what the
other has. Decided here: code that writes `import secrets` first means both, so the module gets `type` and `header`; and the
object answers for the module. Where a session has no secrets, nothing of this is there.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

from cellwright_kernel.python.after_import import AfterImport
from cellwright_kernel.secrets.secrets import WHERE, Secrets


class BothSecrets(Secrets):
    """The session's secrets, and what Python's own module has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module("secrets"), name)


def prepare_secrets(after_import: AfterImport) -> None:
    """Have Python's module offer the session's secrets as well, if there are any."""
    if WHERE not in os.environ:
        return
    after_import.do("secrets", _offer)
    if "secrets" in sys.modules:
        _offer(sys.modules["secrets"])


def _offer(module: ModuleType) -> None:
    ours = Secrets()
    module.type, module.header = ours.type, ours.header  # type: ignore[attr-defined]
