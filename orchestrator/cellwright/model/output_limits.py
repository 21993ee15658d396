"""How long a server is told that a response may be, and what it does not take of that.

Flows in: a request's limit, what the user gives with each request, refusals. Flows out: `max_output_tokens`, or nothing. Decided here: that
the smaller of both limits is sent; that a request whose limit was refused is made again without one; that after a number which is too
large for a server smaller ones are sent, and none to a server that does not know the field; and that one which counts the limit among what
has to fit into its context may mean the limit when it says "too long".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import openai
from pydantic import JsonValue

from cellwright.model.base import Request
from cellwright.model.refusals import code_of

_ASKED_WITHOUT: Final = (
    "It is asked without: a response that is longer than what is left of the budget is noticed once it is there."
)
_UNKNOWN: Final = re.compile(
    r"un(?:supported|known|recognized|expected)|not (?:supported|allowed|permitted)", re.IGNORECASE
)


class OutputLimits:
    """What one model at one server takes."""

    def __init__(self) -> None:
        self._below: int | None = None
        """Only smaller limits are sent; absent: any."""

    def of(self, request: Request, model: str, chosen: Mapping[str, JsonValue]) -> int | None:
        """Return the limit to be sent with a request; None: that which the user chose stands, or none."""
        most = request.most_output(model) if request.most_output is not None else None
        if most is None or (self._below is not None and most >= self._below):
            return None
        users = chosen.get("max_output_tokens")
        return None if isinstance(users, int) and users <= most else most

    def refused(self, error: Exception, sent: int | None, chosen: Mapping[str, JsonValue]) -> str | None:
        """Return what is said where it may be the limit that a request was refused for, and remember that; None: it is not.

        Args:
            error: The refusal.
            sent: The limit of ours that was in it; absent: there was none.
            chosen: What the user gives with each request: a limit there would be sent instead, and be refused as well.
        """
        if (
            "max_output_tokens" in chosen
            or sent is None
            or not isinstance(error, openai.APIStatusError)
            or error.status_code not in (400, 413, 422)
        ):
            return None
        if code_of(error) == "context_length_exceeded":
            return f"The model server finds the request too long, which may be its limit of {sent:,} tokens. {_ASKED_WITHOUT}"
        said = f"{error.code} {error.param} {error.message}"
        if "max_output_tokens" not in said:
            return None
        self._below = 0 if _UNKNOWN.search(said) else sent // 2
        return f"The model server does not take `max_output_tokens` as it was given ({sent:,}). {_ASKED_WITHOUT}"
