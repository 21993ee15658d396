"""The outside: keys, rules and the record. The public names are listed here and nowhere else.

    async with cellwright.Session.open() as session:
        cell = await session.execute("1 + 1")
    run = await cellwright.run("Fill in the form at ...", model="...")

Flows in: nothing. Flows out: the names. Decided here: that each is loaded when it is first used, so that a command which
needs no model does not wait for the model's library (0.5 s).

PYTEST_DONT_REWRITE: there is a plugin for pytest in here, and pytest would warn a program that has imported this before it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cellwright.errors import CellwrightError
    from cellwright.history import Pictures
    from cellwright.loop import run
    from cellwright.record.reader import read_run
    from cellwright.sandbox.base import Limits, SecretSpec, Spec
    from cellwright.session import Session
    from cellwright.terms import Checks, Sending
    from cellwright_kernel.wire import Cell, Image, Text

__version__ = "0.1.0"

__all__ = [
    "Cell",
    "CellwrightError",
    "Checks",
    "Image",
    "Limits",
    "Pictures",
    "SecretSpec",
    "Sending",
    "Session",
    "Spec",
    "Text",
    "read_run",
    "run",
]

_HOME: Final = {
    "Cell": "cellwright_kernel.wire",
    "CellwrightError": "cellwright.errors",
    "Checks": "cellwright.terms",
    "Image": "cellwright_kernel.wire",
    "Limits": "cellwright.sandbox.base",
    "Pictures": "cellwright.history",
    "SecretSpec": "cellwright.sandbox.base",
    "Sending": "cellwright.terms",
    "Session": "cellwright.session",
    "Spec": "cellwright.sandbox.base",
    "Text": "cellwright_kernel.wire",
    "read_run": "cellwright.record.reader",
    "run": "cellwright.loop",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
