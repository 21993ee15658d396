"""How many tokens a request and a response take, estimated as the API's documents say.

Flows in: a conversation and the items of its response. Flows out: the usage, as the API has it. Decided here: four characters are a
token, an image is its patches; and that the longest run of items with which an earlier request began, too, was in the cache.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from cellwright.emulator.script import ScriptedUsage
from cellwright.estimate import picture_tokens
from cellwright.model.base import Item

_KEPT: Final = 20_000
"""Beginnings of requests that are remembered; the oldest go first."""
_NO_TOKENS: Final = ("id", "call_id", "status", "type", "detail")


class PromptCache:
    """Beginnings of the requests that there were."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()

    def take(self, model: str, head: str, history: Sequence[Item]) -> int:
        """Remember a request; return how many tokens of it an earlier one began with.

        Args:
            model: Which has a cache of its own.
            head: What stands before the items: instructions, tools.
            history: The items, oldest first.
        """
        digest = hashlib.sha256(f"{model}\n{head}".encode())
        cached, tokens, is_known = 0, tokens_of(head), True
        for part in (None, *history):
            if part is not None:
                digest.update(json.dumps(part, sort_keys=True).encode())
                tokens += tokens_of(dict(part))
            key = digest.hexdigest()
            is_known = is_known and key in self._seen
            cached = tokens if is_known else cached
            self._seen[key] = None
            self._seen.move_to_end(key)
        while len(self._seen) > _KEPT:
            self._seen.popitem(last=False)
        return cached


def usage_of(
    head: str, history: Iterable[Item], output: Sequence[JsonValue], cached: int, said: ScriptedUsage
) -> dict[str, JsonValue]:
    """Return the usage of one response; what the script says of it stands."""
    tokens_in = tokens_of(head) + sum(tokens_of(dict(item)) for item in history)
    tokens_in = tokens_in if said.input_tokens is None else said.input_tokens
    thought = sum(tokens_of(item) for item in output if isinstance(item, dict) and item.get("type") == "reasoning")
    tokens_out = sum(tokens_of(item) for item in output) if said.output_tokens is None else said.output_tokens
    cached = min(cached, tokens_in) if said.cached_tokens is None else said.cached_tokens
    thought = min(thought, tokens_out) if said.reasoning_tokens is None else said.reasoning_tokens
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": tokens_in + tokens_out,
    }


def tokens_of(value: JsonValue) -> int:
    """Return about how many tokens a value has: four characters each, and an image's patches."""
    match value:
        case {"type": "input_image", "image_url": str() as url}:
            return picture_tokens(url)
        case dict():
            return sum(tokens_of(part) for name, part in value.items() if name not in _NO_TOKENS)
        case list():
            return sum(tokens_of(part) for part in value)
        case str():
            return (len(value) + 3) // 4
        case _:
            return 0
