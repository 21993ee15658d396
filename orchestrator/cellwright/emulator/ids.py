"""Ids of what the emulator makes, and what they tell when they come back: how far a conversation has come.

Flows in: a history. Flows out: a `Place` in the script. Decided here: that an id carries the number of its turn, so that many
conversations may be played at once, a retry plays the same turn, and the emulator need remember nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cellwright.model.base import Item

_ID: Final = re.compile(r"(?:resp|rs|msg|fc|ctc|call|cmp)_(t(\d+)([fn]*)_([0-9a-f]{12}))")


@dataclass(frozen=True)
class Place:
    """How far a conversation has come."""

    turns: int
    """Scripted turns that it has; 0 when there is none."""
    conversation: str
    """Tells it from others that have come as far; for counting what goes wrong."""


def new_key(turn: int, *, is_fault: bool, has_reasoning: bool) -> str:
    """Return what the ids of one response have in common.

    Args:
        turn: How many scripted turns a conversation has that holds them.
        is_fault: Whether it is a response that came before its turn.
        has_reasoning: Whether its items must be sent back with their reasoning.
    """
    return f"t{turn}{'f' if is_fault else ''}{'' if has_reasoning else 'n'}_{uuid.uuid4().hex[:12]}"


def place_of(history: Iterable[Item], known: Mapping[str, int]) -> Place:
    """Return how far a history has come.

    Args:
        history: Its items, oldest first.
        known: Ids that a script gives itself -> turn.
    """
    turns, conversation, first = 0, "", ""
    for item in history:
        first = first or hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()
        for name in ("id", "call_id"):
            word = item.get(name)
            if not isinstance(word, str):
                continue
            match = _ID.match(word)
            if known.get(word, 0) > turns:
                turns, conversation = known[word], first
            elif match is not None and word not in known and int(match[2]) >= turns and "f" not in match[3]:
                turns, conversation = int(match[2]), match[4]
    return Place(turns, conversation or first)


def is_of_fault(word: str) -> bool:
    """Return whether an id is that of an item or a call of a response that came before its turn."""
    match = _ID.match(word)
    return match is not None and "f" in match[3]


def reasoning_of(item_id: str) -> str | None:
    """Return the id of the reasoning that an item must be sent back with; None when there was none."""
    match = _ID.match(item_id)
    if match is None or "n" in match[3] or not item_id.startswith(("fc_", "ctc_", "msg_")):
        return None
    return f"rs_{match[1]}"
