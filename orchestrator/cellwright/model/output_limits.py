"""How long a server is told that a response may be, and what it does not take of that.

Flows in: a request's limit, what the user gives with each request, refusals. Flows out: `max_output_tokens`, or nothing. Decided here: that
the smaller of both limits is sent; that a request whose limit was refused is made again without one; that a limit which was
refused, and every larger one, is not sent again, and none at all once two were refused; and that a server which counts the limit
among what has to fit into its context may mean the limit when it says "too long".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import openai
from pydantic import JsonValue

from cellwright.model.base import Request
from cellwright.model.refusals import code_of

NO_LIMIT: Final = (
    "The model server does not take `max_output_tokens` as it was given. It is asked without: a response that is longer than what "
    "is left of the budget is noticed once it is there."
)
_REFUSALS: Final = 2
"""After so many it is not the number that is refused."""


class OutputLimits:
    """What one model at one server takes."""

    def __init__(self) -> None:
        self._below: int | None = None
        self._refusals = 0

    def of(self, request: Request, model: str, chosen: Mapping[str, JsonValue]) -> int | None:
        """Return the limit to be sent with a request; None: that which the user chose stands, or none."""
        most = request.most_output(model) if request.most_output is not None else None
        if most is None or self._refusals >= _REFUSALS or (self._below is not None and most >= self._below):
            return None
        users = chosen.get("max_output_tokens")
        return None if isinstance(users, int) and users <= most else most

    def refused(self, error: Exception, sent: int | None) -> bool:
        """Return whether it may be the limit that a request was refused for, and remember that.

        Args:
            error: The refusal.
            sent: The limit of ours that was in it; absent: there was none.
        """
        if sent is None or not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 422):
            return False
        if "max_output_tokens" in f"{error.param} {error.message}":
            self._below = sent if self._below is None else min(self._below, sent)
            self._refusals += 1
            return True
        return code_of(error) == "context_length_exceeded"
