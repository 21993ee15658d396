"""Options that several commands have, said once.

Flows in: a frozen dataclass whose fields are options of typer's. Flows out: a decorator for commands that have these options besides
their own. Decided here: that a command takes each such group as one value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints


def with_options(**groups: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: the command has the options of these groups, and takes each group as the argument of its name."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = signature(command, eval_str=True)

        @wraps(command)
        def called(**words: Any) -> None:  # noqa: ANN401 - what typer makes of the command line
            taken = {
                name: group(**{option.name: words.pop(option.name) for option in fields(group)})
                for name, group in groups.items()
            }
            command(**words, **taken)

        rest = [parameter for parameter in own.parameters.values() if parameter.name not in groups]
        options = [option for group in groups.values() for option in _parameters(group)]
        called.__signature__ = own.replace(parameters=[*rest, *options])  # type: ignore[attr-defined]
        return called

    return decorate


def _parameters(group: type) -> list[Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    return [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=kinds[option.name])
        for option in fields(group)
    ]
