"""Events of a cell's stream -> the same without values of secrets.

Flows in: events as they come out of the door. Flows out: events that anybody may see. Decided here: that a text in pieces is
looked at across its pieces, and lags behind by what may be the beginning of a value until the output that it belongs to is
whole; and that a picture whose file holds a value is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Final

from cellwright.errors import SandboxLost
from cellwright.secrets.hiding import Hider, Stream
from cellwright.secrets.plain import Plain
from cellwright_kernel.wire import ClosedEvent, Event, Image, KeptEvent, Output, OutputEvent, PieceEvent, Source, Text
from cellwright_kernel.wire_people import PersonAskedEvent

_STREAMS: Final = frozenset({"stdout", "stderr"})


async def without_values(
    events: AsyncIterator[Event], hider: Hider, *, is_unfinished: bool = False
) -> AsyncIterator[Event]:
    """Yield a cell's events; where its stream breaks, what was held back of them comes first.

    Args:
        events: As they came.
        hider: Hides the values.
        is_unfinished: Whether they say what a cell has shown so far: then what may be the beginning of a value is left out.
    """
    hidden = _Events(hider, is_unfinished=is_unfinished)
    try:
        async for event in events:
            for one in hidden.take(event):
                yield one
    except SandboxLost:
        for one in hidden.rest():
            yield one
        raise


class _Events:
    def __init__(self, hider: Hider, *, is_unfinished: bool) -> None:
        self._hider = hider
        self._is_unfinished = is_unfinished
        self._plain: defaultdict[Source, Plain] = defaultdict(Plain)
        self._pieces: defaultdict[Source, Stream] = defaultdict(hider.stream)
        self._kept: defaultdict[int, Stream] = defaultdict(hider.stream)

    def take(self, event: Event) -> Iterator[Event]:
        """Yield what can be let go of."""
        match event:
            case PieceEvent():
                text = self._pieces[event.source].take(self._plain[event.source].take(event.text))
                if text:
                    yield event.model_copy(update={"text": text})
            case KeptEvent():
                text = self._kept[event.number].take(event.text)
                if text:
                    yield event.model_copy(update={"text": text})
            case OutputEvent():
                yield from self.rest()
                output = _without(event.output, self._hider)
                if self._is_unfinished and isinstance(output, Text) and output.source in _STREAMS:
                    end = len(output.text) - self._hider.held_back(output.text)
                    output = output.model_copy(update={"text": output.text[:end]})
                yield event.model_copy(update={"output": output})
            case PersonAskedEvent():
                yield event.model_copy(update={"question": self._hider.hide(event.question)})
            case ClosedEvent():
                yield from self.rest()
                yield event
            case _:
                yield event

    def rest(self) -> Iterator[Event]:
        """Yield what was held back."""
        for source, stream in self._pieces.items():
            if text := stream.rest():
                yield PieceEvent(source=source, text=text)
        for number, stream in self._kept.items():
            if text := stream.rest():
                yield KeptEvent(number=number, text=text)


def _without(output: Output, hider: Hider) -> Output:
    match output:
        case Text():
            hide = hider.hide_cut if output.missing_chars else hider.hide
            return output.model_copy(update={"text": hide(output.text)})
        case Image():
            name = hider.found_in(output.data)
            if name is None:
                return output
            text = f"[A picture was left out: its file holds the value of the secret {name}.]"
            return Text(text=text, source="notice", of_cell=output.of_cell)
