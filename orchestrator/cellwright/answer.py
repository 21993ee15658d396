"""A closed cell comes in; the items that a model is answered with go out. The loop and `POST /execute` both end here.

Decided here: that the list is never empty and has two kinds of item only; how output of an earlier cell is told apart;
that every status but `ok` is said in words; and that the ceilings hold once more, because what made the outputs is
a stranger. A picture that is not what it says it is would be refused by the model's server and poison the whole
conversation, so it becomes a sentence.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypedDict, assert_never

from cellwright.counted import counted
from cellwright_kernel.wire import Cell, CellStatus, Image, MediaType, Output, Text

ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Ceiling of one answer, over its texts in UTF-8 and its pictures in base64."""
ANSWER_CHARS: Final = 72_000
"""Ceiling of its texts: the 60,000 characters of a cell, and room for notices and late output."""
ANSWER_ITEMS: Final = 128
"""Ceiling of its items: the 100 of a cell, and room for the same."""

_SAYS_NOTHING: Final = "The cell ended without output."
_SENTENCES: Final[dict[CellStatus, str]] = {
    "ok": "The cell itself ended without an error.",
    "running": "The cell has not ended yet: it is still running.",
    "error": "The cell ended with an error that left no message. The variables set before it are kept.",
    "timeout": "The cell reached its deadline and was stopped. What it printed before stands above.",
    "interrupted": "The cell was interrupted. Variables set before that are kept.",
    "kernel_died": "The kernel ended while the cell ran; its variables are gone. Files and the browser's pages are kept.",
    "sandbox_lost": "The sandbox was lost while the cell ran; its variables, files and windows are gone.",
    "denied": "The cell was not executed: a rule or a person denied it.",
}
_MARKER_CHARS: Final = 60
_MIN_CUT: Final = 200
"""With less room than this, a text is left out rather than cut."""


class InputText(TypedDict):
    """A text, as the Responses API takes it."""

    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    """A picture, as the Responses API takes it."""

    type: Literal["input_image"]
    image_url: str
    """A `data:` URL."""
    detail: Literal["original"]


InputItem = InputText | InputImage


def answer(cell: Cell) -> list[InputItem]:
    """Return what the model is told of a cell: its outputs in order, each as one item, and never nothing."""
    items = [item for output in cell.outputs for item in _items(output, cell.number)]
    kept, dropped = _within_ceilings(items, [])
    if dropped:
        kept.append(said(_dropped_sentence(dropped)))
    if cell.status == "ok" and all(_is_late(output, cell.number) for output in cell.outputs):
        kept.append(said(_SAYS_NOTHING))
    elif dropped or not _tells(cell):
        kept.append(said(_SENTENCES[cell.status]))
    return kept


def said(text: str) -> InputText:
    """Return a text as an item; lone surrogates, which JSON cannot carry to a server, become question marks."""
    return {"type": "input_text", "text": text.encode("utf-8", "replace").decode("utf-8")}


def _items(output: Output, number: int) -> Iterator[InputItem]:
    late = _is_late(output, number)
    match output:
        case Text():
            yield said(f"{_late_label(output.of_cell)}\n{output.text}" if late else output.text)
        case Image():
            if late:
                yield said(_late_label(output.of_cell))
            yield _picture(output)
        case _:
            assert_never(output)


def _is_late(output: Output, number: int) -> bool:
    return output.of_cell is not None and output.of_cell != number


def _late_label(of_cell: int | None) -> str:
    return f"From cell {of_cell}, after it had ended:"


def _picture(image: Image) -> InputItem:
    if not _is_what_it_says(image.data, image.media_type):
        return said(
            f"[A picture of {len(image.data)} bytes was left out: it is not the {image.media_type} it says it is.]"
        )
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "input_image", "image_url": f"data:{image.media_type};base64,{data}", "detail": "original"}


def _is_what_it_says(data: bytes, media_type: MediaType) -> bool:
    match media_type:
        case "image/png":
            return data.startswith(b"\x89PNG\r\n\x1a\n")
        case "image/jpeg":
            return data.startswith(b"\xff\xd8\xff")
        case "image/webp":
            return data.startswith(b"RIFF") and data[8:12] == b"WEBP"
        case _:
            assert_never(media_type)


def answer_after(before: Sequence[Output], cell: Cell) -> list[InputItem]:
    """Return the same with outputs of earlier cells in front, which get what room the cell's own leave."""
    own = answer(cell)
    kept, dropped = _within_ceilings([item for output in before for item in _items(output, cell.number)], own)
    return [*kept, *([said(_dropped_sentence(dropped, "these cells"))] if dropped else ()), *own]


def _tells(cell: Cell) -> bool:
    """Whether the outputs say how the cell ended. The words are the inside's; that there are some is seen to here."""
    if cell.status == "ok":
        return bool(cell.outputs)
    if cell.status == "running":
        return False
    wanted = ("error", "notice") if cell.status in ("error", "interrupted") else ("notice",)
    return any(isinstance(o, Text) and o.source in wanted and not _is_late(o, cell.number) for o in cell.outputs)


def _within_ceilings(items: list[InputItem], others: list[InputItem]) -> tuple[list[InputItem], list[InputItem]]:
    """Return what fits beside other items, from the front, and what does not."""
    chars_left = ANSWER_CHARS - sum(len(item["text"]) for item in others if item["type"] == "input_text")
    bytes_left, items_left = ANSWER_BYTES - sum(map(_size_bytes, others)), ANSWER_ITEMS - len(others)
    kept, dropped = list[InputItem](), list[InputItem]()
    for item in items:
        fitting = _cut(item, chars_left)
        chars, size = len(fitting["text"]) if fitting["type"] == "input_text" else 0, _size_bytes(fitting)
        if len(kept) >= items_left or chars > chars_left or size > bytes_left:
            dropped.append(item)
        else:
            kept.append(fitting)
            chars_left, bytes_left = chars_left - chars, bytes_left - size
    return kept, dropped


def _cut(item: InputItem, chars: int) -> InputItem:
    if item["type"] != "input_text" or len(item["text"]) <= chars or chars < _MIN_CUT:
        return item
    return said(without_middle(item["text"], chars - _MARKER_CHARS))


def without_middle(text: str, chars: int) -> str:
    """Return beginning and end of a text that has more characters, with how many are missing; any other as it is."""
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are missing here]\n{text[len(text) - half :]}"


def _size_bytes(item: InputItem) -> int:
    return len(item["text"].encode()) if item["type"] == "input_text" else len(item["image_url"])


def _dropped_sentence(dropped: list[InputItem], whose: str = "this cell") -> str:
    pictures = sum(item["type"] == "input_image" for item in dropped)
    kinds = (("picture", pictures), ("text", len(dropped) - pictures))
    what = " and ".join(counted(number, noun) for noun, number in kinds if number)
    return (
        f"[{what} of {whose} {'was' if len(dropped) == 1 else 'were'} left out: one answer holds {ANSWER_ITEMS} items, "
        f"{ANSWER_CHARS} characters and {ANSWER_BYTES // 1024**2} MiB. Show less at once, or smaller.]"
    )
