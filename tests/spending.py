"""Responses that say how many tokens they used, and a table of prices to count by."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from cellwright.model.base import Response, Usage
from cellwright.prices import Price, Prices

DIME = Price(model="scripted", input=10.0, output=100.0)
"""A thousand tokens in cost a cent, a thousand out a dime."""
DIMES = Prices((DIME,))


def used(response: Response, tokens_in: int, tokens_out: int, *, cached: int = 0, reasoning: int = 0) -> Response:
    """Return a response that used so much, as its own words say, too."""
    said: dict[str, JsonValue] = {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }
    raw = response.raw if isinstance(response.raw, dict) else {}
    return replace(response, usage=Usage(tokens_in, tokens_out, cached, reasoning), raw={**raw, "usage": said})
