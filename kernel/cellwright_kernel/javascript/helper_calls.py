"""What Node asks of this side, which has the display -> answers.

Flows in: Node's calls of `screen`, `clipboard` and `ui`, and about silent pages. Flows out: values as JSON. Decided here:
each call has a thread of its own, that ends with the call or with its limit; and an error goes back as its name and its message.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any, Protocol

Message = dict[str, Any]


class Helper(Protocol):
    """Does the calls of one name."""

    def call(self, name: str, arguments: list[Any]) -> Any:
        """Do one, in a thread of its own; return what JSON can say."""


class HelperCalls:
    """Answers what Node asks.

    Args:
        tell: Sends Node an answer; it is called in the event loop's thread.
        helpers: Who does it.
    """

    def __init__(self, tell: Callable[[Message], None], helpers: Mapping[str, Helper]) -> None:
        self._tell = tell
        self._helpers = helpers

    def take(self, asked: Message) -> None:
        """Begin to answer one call."""
        loop = asyncio.get_running_loop()

        def answer() -> None:
            message = {"do": "tell", "call": asked["call"], **self._answered(asked)}
            loop.call_soon_threadsafe(self._tell, message)

        thread = threading.Thread(target=answer, name=f"{asked['helper']} call", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # a cell that asks a thousand things at once has used up what it may have
            self._tell({"do": "tell", "call": asked["call"], "error": _as_message(error)})

    def _answered(self, asked: Message) -> Message:
        try:
            return {"value": self._helpers[asked["helper"]].call(asked["name"], asked["arguments"])}
        except (Exception, CancelledError) as error:
            return {"error": _as_message(error)}


def _as_message(error: BaseException) -> Message:
    return {"name": type(error).__name__, "message": str(error)}
