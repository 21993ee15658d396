"""Who sees the body of each request before it goes to a model server: tests hold it against the API's own types.

Flows in: bodies. Flows out: the same, to whoever is in `observers`. Decided here: nothing; without observers, which is
the rule, nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

observers: Final[list[Callable[[Mapping[str, JsonValue]], None]]] = []
"""Each is called with every body, and may raise."""


def tell(body: Mapping[str, JsonValue]) -> None:
    """Show a body that is about to be sent."""
    for see in observers:
        see(body)
