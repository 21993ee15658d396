"""`__main__` of a process that a cell started by the spawn method: what cells have defined is not there.

Flows in: names that such a process looks for, because it was sent something defined in a cell. Flows out: stand-ins, whose
use raises an error that says so. Decided here: the look-up itself succeeds. If it failed, the process would end, and a
`multiprocessing.Pool` would start the next one, for ever; so the work fails instead, once, where its result is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import ModuleType

    from cellwright_kernel.python.after_import import AfterImport


class _StandIn(type):
    """Something of a cell, a function or a class. To be called is to be used; to be unpickled is not."""

    def __call__(cls, *_args: object, **_options: object) -> NoReturn:
        raise _not_here(cls.__name__)


def __getattr__(name: str) -> type:
    """What pickle asks this module for."""
    if name.startswith("__"):
        raise AttributeError(name)
    body = {"__new__": _blank, "__setstate__": _ignore, "__getattr__": _refuse, "__repr__": _named}
    return _StandIn(name, (), body)


def prepare_spawn(after_import: AfterImport) -> None:
    """In the kernel: have the processes that cells spawn begin with this module."""

    def prepare(module: ModuleType) -> None:
        original = module.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            data: dict[str, Any] = original(name)
            if "init_main_from_path" not in data:
                data.setdefault("init_main_from_name", "cellwright_kernel.python.spawned")
            return data

        module.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]

    after_import.do("multiprocessing.spawn", prepare)


def _blank(cls: type, *_args: object, **_options: object) -> object:
    return object.__new__(cls)


def _ignore(_self: object, _state: object) -> None:
    """The state belongs to a class that is not here."""


def _named(self: object) -> str:
    return f"<{type(self).__name__} of a cell, which is not here>"


def _refuse(self: object, _name: str) -> NoReturn:
    raise _not_here(type(self).__name__)


def _not_here(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name!r} was defined in a cell, and a process started by the spawn method does not see what cells define. "
        "Use multiprocessing.get_context('fork'), or write it into a module file and import it from there."
    )
