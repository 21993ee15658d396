"""A request as the emulator saw it, for whoever looks at it afterwards.

Flows in: the body, and how it was answered. Flows out: a `SeenRequest`. Decided here: that no credential is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from cellwright.emulator.items import OUTPUT_OF, images_of, kind_of
from cellwright.emulator.playing import texts_of
from cellwright.model.base import Item


@dataclass(frozen=True)
class SeenRequest:
    """One request, and how it was answered."""

    body: Mapping[str, JsonValue]
    """As it came; empty when it was no JSON object."""
    status: int
    """HTTP status of the answer."""
    error: str | None = None
    """The sentence with which it was refused; absent when it was not."""
    turn: int | None = None
    """Which turn of the script was due; absent when it was refused before that was known, or asked for a wrap-up."""
    history: tuple[Item, ...] = field(default=(), repr=False)
    """Every item of its conversation, those of stored responses among them; empty when it was refused before that was known."""
    fault: str | None = None
    """Name of what went wrong with it on request; absent: nothing did."""
    retry: int = 0
    """How often the client says it has asked this before (`x-stainless-retry-count`)."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names in small letters; without the key."""

    @property
    def input(self) -> tuple[Item, ...]:
        """The items that it has; a text is a message of the user's."""
        said = self.body.get("input")
        if isinstance(said, str):
            return ({"type": "message", "role": "user", "content": said},)
        return tuple(item for item in said if isinstance(item, dict)) if isinstance(said, list) else ()

    @property
    def answers(self) -> dict[str, str]:
        """Text of each answer in it, by the call's id; of one that was given twice, both."""
        found = dict[str, str]()
        for item in self.input:
            if kind_of(item) in OUTPUT_OF.values():
                call_id = str(item.get("call_id"))
                text = texts_of([item])
                found[call_id] = f"{found[call_id]}\n{text}" if call_id in found else text
        return found

    @property
    def images(self) -> int:
        """How many pictures are in it."""
        return sum(1 for _ in images_of(self.input))

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of what may be called."""
        said = self.body.get("tools")
        return tuple(str(tool.get("name")) for tool in said if isinstance(tool, dict)) if isinstance(said, list) else ()

    @property
    def previous_response_id(self) -> str | None:
        """Of the response that it goes on from."""
        said = self.body.get("previous_response_id")
        return said if isinstance(said, str) else None

    @property
    def streams(self) -> bool:
        """Whether it asks for events."""
        return self.body.get("stream") is True
