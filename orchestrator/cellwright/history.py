"""What the model has been told and has said so far: the one list that every request is made of.

Flows in: what is said to the model, its responses, the answers to its calls, in order. Flows out: the items of the next request.
Decided here: that a picture which the model has before its eyes is not sent again; what is left out when old pictures
go, when a summary takes the place of what it sums up, and when the server has compacted; that the task, and whatever else was said to
the model, never goes; and that each of these is the same act on the same list, so that it is done again from the record when a
run is resumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, cast

from pydantic import JsonValue

from cellwright.answer import said
from cellwright.counted import counted
from cellwright.errors import UsageError
from cellwright.model.base import Item

_GONE: Final = (
    "[A picture was here. It is no longer sent, to save room; what was written of it stands. Take a new screenshot, or show it "
    "again, where you need to see it.]"
)
_SUMMED_UP: Final = (
    "To save room, what came between the messages above and your last turn is no longer sent. This is your own summary of it; "
    "variables, files, pages and windows are as you left them.\n\n"
)


@dataclass(frozen=True)
class Pictures:
    """How many pictures are sent. They go in rare large steps: each step loses what the server has cached behind the first that goes."""

    most: int = 5
    """With more than so many in the history, old ones go, in one step."""
    kept: int = 1
    """So many stay then, the newest; and all that the model has not seen yet."""

    def __post_init__(self) -> None:
        if not 1 <= self.kept <= self.most:
            raise UsageError(
                f"Pictures {self.most}:{self.kept} cannot be: at least 1 is kept, and no more than may be there. Nothing was "
                "started. Give MOST:KEPT, 5:1 say, or `all`."
            )


@dataclass(frozen=True)
class Answer:
    """What a call is answered with."""

    item: Item
    """As the API has it."""
    cell: int | None = None
    """Number of the cell that was executed; absent when none was."""


@dataclass(frozen=True)
class _Entry:
    item: Item
    by: Literal["us", "summary", "model", "answer"]
    cell: int | None = None


class History:
    """One conversation, oldest item first."""

    def __init__(self, *messages: Item) -> None:
        self._entries = [_Entry(item, "us") for item in messages]

    def __iter__(self) -> Iterator[Item]:
        return (entry.item for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<History: {counted(len(self), 'item')}, {counted(self.pictures, 'picture')}>"

    @property
    def items(self) -> tuple[Item, ...]:
        """Everything that the next request sends."""
        return tuple(self)

    @property
    def pictures(self) -> int:
        """How many pictures are among it."""
        return len(self._pictures())

    def copy(self) -> History:
        """Return another that goes on from here."""
        other = History()
        other._entries = [*self._entries]
        return other

    def say(self, *messages: Item) -> None:
        """Add what we say to the model; it stays to the end."""
        self._entries.extend(_Entry(item, "us") for item in messages)

    def respond(self, items: Iterable[Item]) -> None:
        """Add a response, as it came. A compaction in it stands for all before it but what was said to the model."""
        new = [_Entry(item, "model") for item in items]
        if any(entry.item.get("type") == "compaction" for entry in new):
            self._entries = [entry for entry in self._entries if entry.by == "us"]
        self._entries.extend(new)

    def answer(self, answer: Answer) -> None:
        """Add the answer to a call; a picture that is the newest the model has, byte for byte, becomes a sentence."""
        parts = answer.item.get("output")
        item = answer.item if not isinstance(parts, list) else {**answer.item, "output": self._unlike(parts, answer)}
        self._entries.append(_Entry(item, "answer", answer.cell))

    def drop_pictures(self, kept: int) -> int:
        """Leave out all pictures but the newest `kept` and those that the model has not seen yet; return how many went."""
        places = self._pictures()
        seen = sum(index < self._end_of_model() for index, _ in places)
        going = places[: min(seen, max(0, len(places) - kept))]
        for index, part in going:
            entry = self._entries[index]
            parts = list(cast("list[JsonValue]", entry.item["output"]))
            parts[part] = cast("JsonValue", said(_GONE))
            self._entries[index] = replace(entry, item={**entry.item, "output": parts})
        return len(going)

    @property
    def summable(self) -> tuple[Item, ...]:
        """What goes when a summary takes its place: all before the last turn that we did not say; empty when that is no turn."""
        before = self._entries[: self._last_turn()]
        has_turns = any(entry.by == "model" for entry in before)
        return tuple(entry.item for entry in before if entry.by != "us") if has_turns else ()

    @property
    def before_last_turn(self) -> tuple[Item, ...]:
        """What the last response was the response to."""
        return tuple(entry.item for entry in self._entries[: self._last_turn()])

    def sum_up(self, summary: str) -> None:
        """Put a summary in the place of what it sums up; what was said to the model and its last turn stay whole."""
        place = self._last_turn()
        words = user_item(f"{_SUMMED_UP}{summary}")
        stays = [entry for entry in self._entries[:place] if entry.by == "us"]
        self._entries = [*stays, _Entry(words, "summary"), *self._entries[place:]]

    def _unlike(self, parts: list[JsonValue], answer: Answer) -> list[JsonValue]:
        latest, of_cell = self._newest_picture()
        sent: list[JsonValue] = []
        for part in parts:
            url = _picture(part)
            if url is not None and url == latest:
                sent.append(cast("JsonValue", said(_same(of_cell, answer.cell))))
                continue
            sent.append(part)
            if url is not None:
                latest, of_cell = url, answer.cell
        return sent

    def _newest_picture(self) -> tuple[str | None, int | None]:
        places = self._pictures()
        if not places:
            return None, None
        index, part = places[-1]
        entry = self._entries[index]
        return _picture(cast("list[JsonValue]", entry.item["output"])[part]), entry.cell

    def _pictures(self) -> list[tuple[int, int]]:
        """Return where they are: the entry, and the part of its answer."""
        return [
            (index, place)
            for index, entry in enumerate(self._entries)
            if entry.by == "answer" and isinstance(parts := entry.item.get("output"), list)
            for place, part in enumerate(parts)
            if _picture(part) is not None
        ]

    def _end_of_model(self) -> int:
        """Return where the last response ends: it has seen what stands before."""
        return max((index + 1 for index, entry in enumerate(self._entries) if entry.by == "model"), default=0)

    def _last_turn(self) -> int:
        """Return where the last response begins; 0 when there is none."""
        place = self._end_of_model()
        while place > 0 and self._entries[place - 1].by == "model":
            place -= 1
        return place


def user_item(text: str) -> Item:
    """Return a message to the model, as the API has it."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said(text)["text"]}]}


def _picture(part: JsonValue) -> str | None:
    if isinstance(part, dict) and part.get("type") == "input_image" and isinstance(url := part.get("image_url"), str):
        return url
    return None


def _same(of_cell: int | None, cell: int | None) -> str:
    which = "the one before it" if of_cell == cell or of_cell is None else f"the one of cell {of_cell} above"
    return f"The picture is the same as {which}; it is not sent again."
