"""Jupyter messages of a cell -> its outputs, in order, within the ceilings.

Flows in: messages, in the order they came. Flows out: events that tell of text and image outputs. Decided here: what is
one item (a run of writes to one stream, a shown thing, a result, an error); which of several encodings of one thing is
passed on; what is said when nothing was said; what is withdrawn when a cell clears or updates what it showed; which items
of too many are left out: those in the middle; and that what the kernel left out itself, and only counted, is in the counts.

Nothing here waits or knows a kernel: `shown.py` keeps the items, this file reads the messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from cellwright_kernel.ceilings import ITEM_CHARS, Allowance, LongText
from cellwright_kernel.images import MEDIA_TYPES, NotAnImage, read_image
from cellwright_kernel.shown import LAST_ITEMS, Shown
from cellwright_kernel.stretches import STREAMS, divided
from cellwright_kernel.terminal import Gap, Terminal, bare, plain_ends, without_surrogates
from cellwright_kernel.wire import Image, KeptEvent, Output, OutputEvent, PieceEvent, Source, Text, WithdrawnEvent

NOTHING_SAID: Final = "The cell ran and showed nothing."
_PIECE_CHARS: Final = 16_384
"""Most text for live views between two takings; more is dropped there, never in the outputs."""
_LINE_CHARS: Final = 2000
"""Of a line that is not finished, what is shown while its cell runs."""
_EXACT: Final = ("log", "notice")
"""Sources whose text is passed on as it is."""

Message = Mapping[str, Any]


class Outputs:
    """What one cell has shown so far, and what came late from cells before it.

    Args:
        width: Most pixels across of a picture; a wider one is scaled.
        height: Most pixels down.
    """

    def __init__(self, *, width: int = 2048, height: int = 2048) -> None:
        self._size = (width, height)
        self._allowance = Allowance()
        self._shown = Shown(self._allowance)
        self._writing: _Writing | None = None
        self._clear_before_next: set[int | None] = set()
        self._pieces: list[tuple[Source, str]] = []
        self._piece_chars = 0

    @property
    def truncated(self) -> bool:
        """True when anything was cut or left out."""
        return self._shown.truncated

    def add(self, message: Message, of_cell: int | None = None) -> None:
        """Take one message from the kernel.

        Args:
            message: As `jupyter_client` gives it. What is malformed in it counts as absent: a cell can forge messages.
            of_cell: Number of the earlier cell it belongs to; None for this one.
        """
        content = _mapping(message.get("content"))
        if items := _count(message, "missing_items"):
            self._end_writing()
            self._shown.leave_out(items, of_cell)
        match _mapping(message.get("header")).get("msg_type"):
            case "stream":
                self._before_next(of_cell)
                self._stream(content, of_cell, _count(message, "missing_chars"))
            case "display_data" if (stretches := _stretches(message)) is not None:
                self._before_next(of_cell)
                self._several(divided(_mapping(content.get("data")).get("text/plain"), stretches), of_cell)
            case "display_data":
                self._before_next(of_cell)
                self._display(content, _said_source(message), of_cell, _gap(message))
            case "execute_result":
                self._before_next(of_cell)
                self._display(content, "result", of_cell, _gap(message))
            case "error":
                self._before_next(of_cell)
                self._text(_error_text(content), "error", of_cell)
            case "update_display_data":
                self._update(content, _said_source(message))
            case "clear_output":
                self._clear_before_next.add(of_cell)
                if not content.get("wait"):
                    self._before_next(of_cell)
            case _:
                pass

    def note(self, sentence: str) -> None:
        """Add a sentence of our own to the model."""
        self._end_writing()
        self._text(sentence, "notice", None)

    def take(self) -> Iterator[OutputEvent | WithdrawnEvent | KeptEvent]:
        """Yield what has changed since the last taking; a stream still being written is not in it."""
        return self._shown.take()

    def take_pieces(self) -> Iterator[PieceEvent]:
        """Yield what was written to streams since the last taking, for live views."""
        pieces, self._pieces, self._piece_chars = self._pieces, [], 0
        for source, text in pieces:
            yield PieceEvent(text=text, source=source)

    def so_far(self) -> Iterator[OutputEvent]:
        """Yield every output as it stands now, a stream that is being written last; nothing is taken by it."""
        yield from self._shown.so_far()
        if self._writing is not None and (text := self._writing.so_far()).text:
            yield OutputEvent(output=text)

    def close(self) -> Iterator[OutputEvent | WithdrawnEvent | KeptEvent]:
        """Say that nothing more comes; yield the rest. The list that results is never empty."""
        self._end_writing()
        if not self._shown.has_own:
            self.note(NOTHING_SAID)
        return self.end()

    def end(self) -> Iterator[OutputEvent | WithdrawnEvent | KeptEvent]:
        """Say that nothing more comes, and no cell either; yield the rest, if there is any."""
        self._end_writing()
        return self._shown.close()

    def _stream(self, content: Mapping[str, Any], of_cell: int | None, left_out: int) -> None:
        source: Source = "stderr" if content.get("name") == "stderr" else "stdout"
        text = content.get("text")
        if not isinstance(text, str) or not (text or left_out):
            return
        if self._writing is None or (self._writing.source, self._writing.of_cell) != (source, of_cell):
            self._end_writing()
            self._writing = _Writing(source, of_cell, LongText(self._allowance))
        text = without_surrogates(text)
        self._writing.skip(left_out)
        self._writing.write(text)
        self._add_piece(source, text)

    def _several(self, texts: list[tuple[str, str]], of_cell: int | None) -> None:
        """Take texts that were gathered. Where only the last of them can be shown, the others are left out at once."""
        at = 0
        while at < len(texts):
            whole = len(texts) - LAST_ITEMS - 1  # a run of a stream may have begun before, and may go on
            if 0 < at < whole and self._shown.is_full(of_cell):
                self._end_writing()
                self._shown.leave_out_texts([_as_item(kind, text) for kind, text in texts[at:whole]], of_cell)
                at = whole
            kind, text = texts[at]
            if kind in STREAMS:
                self._stream({"name": kind, "text": text}, of_cell, 0)
            else:
                self._text(text, cast("Source", kind), of_cell)
            at += 1

    def _add_piece(self, source: Source, text: str) -> None:
        text = bare(text[: max(0, _PIECE_CHARS - self._piece_chars)])
        if not text:
            return
        self._piece_chars += len(text)
        if self._pieces and self._pieces[-1][0] == source:
            text = self._pieces.pop()[1] + text
        self._pieces.append((source, text))

    def _end_writing(self) -> None:
        if self._writing is None:
            return
        writing, self._writing = self._writing, None
        text = writing.end()
        if text.chars:
            self._shown.add_text(text, writing.source, writing.of_cell)

    def _text(
        self, text: str, source: Source, of_cell: int | None, display_id: str | None = None, gap: Gap = (0, 0)
    ) -> None:
        self._end_writing()
        self._shown.add_text(self._long(text, source, gap), source, of_cell, display_id)

    def _long(self, text: str, source: Source, gap: Gap = (0, 0)) -> LongText:
        long = LongText(self._allowance)
        text = without_surrogates(text)
        if source not in _EXACT:
            text, gap = plain_ends(text, gap)
        at, left_out = gap
        if left_out:
            long.write(text[:at])
            long.skip(left_out)
            text = text[at:]
        long.write(text)
        return long

    def _display(self, content: Mapping[str, Any], source: Source, of_cell: int | None, gap: Gap) -> None:
        self._end_writing()
        display_id = _display_id(content)
        for item in self._items(content, source):
            if isinstance(item, Image):
                self._shown.add_image(item, of_cell, display_id)
            else:
                named = None if item.source == "notice" else display_id
                self._text(item.text, item.source, of_cell, named, gap)

    def _update(self, content: Mapping[str, Any], source: Source) -> None:
        """Put a new picture or text in the place of every one with this id; nothing when there is none."""
        display_id = _display_id(content)
        if display_id is None:
            return
        self._end_writing()
        last = list(self._items(content, source))[-1]
        if isinstance(last, Image):
            self._shown.replace_image(display_id, last)
        else:
            self._shown.replace_text(display_id, self._long(last.text, last.source), last.source)

    def _items(self, content: Mapping[str, Any], source: Source) -> Iterator[Output]:
        """Yield the one encoding that is passed on of a shown thing, and before it what is to be said about it."""
        data = _mapping(content.get("data"))
        for media_type in MEDIA_TYPES:
            if media_type not in data:
                continue
            try:
                image, sentence = read_image(media_type, data[media_type], width=self._size[0], height=self._size[1])
            except NotAnImage as reason:
                yield Text(text=f"What was shown as {media_type} is no picture: {reason}.", source="notice")
                break
            if sentence:
                yield Text(text=sentence, source="notice")
            yield image
            return
        yield Text.model_construct(text=_best_text(data), source=source)

    def _before_next(self, of_cell: int | None) -> None:
        """Do a clearing that waited for the next output."""
        if of_cell not in self._clear_before_next:
            return
        self._clear_before_next.discard(of_cell)
        if self._writing is not None and self._writing.of_cell == of_cell:
            self._writing.end().release()
            self._writing = None
        self._shown.clear(of_cell)


class _Writing:
    """A run of writes to one stream."""

    def __init__(self, source: Source, of_cell: int | None, text: LongText) -> None:
        self.source = source
        self.of_cell = of_cell
        self._text = text
        self._terminal = Terminal()

    def write(self, text: str) -> None:
        self._text.write(self._terminal.write(text))

    def skip(self, chars: int) -> None:
        if chars:
            self._text.write(self._terminal.rest())
            self._text.skip(chars)

    def so_far(self) -> Text:
        """Return what is written by now; of a line that has no end yet, and is long, the end of it."""
        line = self._terminal.line
        left_out = max(0, len(line) - _LINE_CHARS)
        if left_out:
            line = f"[... {left_out:,} characters of this line are left out here ...]{line[left_out:]}"
        text, missing = self._text.shown(ITEM_CHARS - len(line), is_late=self.of_cell is not None)
        return Text(text=text + line, source=self.source, of_cell=self.of_cell, missing_chars=missing + left_out)

    def end(self) -> LongText:
        self._text.write(self._terminal.rest())
        return self._text


def _as_item(kind: str, text: str) -> str:
    """Return a text as it would be shown."""
    text = without_surrogates(text)
    return text if kind in _EXACT else plain_ends(text)[0]


def _best_text(data: Mapping[str, Any]) -> str:
    for media_type in ("text/plain", "text/markdown", "text/latex", "text/html", *data):
        if isinstance(text := data.get(media_type), str) and not media_type.startswith(("image/", "audio/", "video/")):
            return text
    return f"[shown as {', '.join(map(str, data)) or 'nothing'}, which can't be passed on]"[:ITEM_CHARS]


def _error_text(content: Mapping[str, Any]) -> str:
    name, value, frames = content.get("ename"), content.get("evalue"), content.get("traceback")
    sentence = f"{name}: {value}" if value else f"{name}"
    text = "\n".join(map(str, frames)) if isinstance(frames, list) and frames else ""
    if str(name) not in text:
        text = f"{text}\n{sentence}" if text else sentence
    return text


def _said_source(message: Message) -> Source:
    content = _mapping(message.get("content"))
    said = _mapping(_mapping(content.get("metadata")).get("cellwright")).get("source")
    return cast("Source", said) if said in ("log", "display", "notice") else "display"


def _stretches(message: Message) -> object:
    """Return how its text is divided where it is several."""
    return _mapping(_mapping(message.get("metadata")).get("cellwright")).get("stretches")


def _count(message: Message, name: str) -> int:
    """Return how much a cell said before this message that its kernel counted and did not send."""
    found = _mapping(_mapping(message.get("metadata")).get("cellwright")).get(name)
    return found if isinstance(found, int) and 0 < found < 2**53 else 0


def _gap(message: Message) -> Gap:
    return _count(message, "missing_at"), _count(message, "missing_chars")


def _display_id(content: Mapping[str, Any]) -> str | None:
    found = _mapping(content.get("transient")).get("display_id")
    return found if isinstance(found, str) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
