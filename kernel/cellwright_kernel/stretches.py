"""Many short texts of one cell as one message.

Flows in: texts that a cell says one by one. Flows out: one `display_data` message, and from that the same texts again.
Decided here: its form, which to any Jupyter client is a text; and from when on texts are gathered. A message costs a
kernel 60 µs and the kernel host 100, so code that logs in a loop would be seconds ahead of what is read of it. What a kernel had gathered and not sent when it
died is told as one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SINGLY: Final = 200
"""So many short messages a cell sends one by one; what it says after is gathered."""
SHORT: Final = 16 * 1024
"""Characters below which a message is short; a long one costs what its text costs."""
MOST: Final = 4096
"""Texts of one message: 25 ms to the kernel host at the worst, which then has others to see to."""
TEXTS: Final = ("log", "display", "notice", "stdout", "stderr")
"""What may be gathered."""
STREAMS: Final = ("stdout", "stderr")


class Stretches:
    """How a gathered text is divided."""

    def __init__(self) -> None:
        self._stretches: list[list[str | int]] = []
        self.texts = 0

    def add(self, kind: str, chars: int) -> None:
        """Note a text that was appended; one that belongs to a stream goes on where that stream spoke last."""
        if kind in STREAMS and not chars:
            return
        self.texts += 1
        if not self._stretches or self._stretches[-1][0] != kind:
            self._stretches.append([kind, chars])
        elif kind in STREAMS:
            self._stretches[-1][1] += chars  # type: ignore[operator]  # the second one is a number
        else:
            self._stretches[-1].append(chars)

    def take(self) -> list[list[str | int]]:
        """Hand out what was noted: of each stretch its kind, and the length of each text, its separator not counted."""
        taken, self._stretches, self.texts = self._stretches, [], 0
        return taken


def separator(kind: str) -> str:
    """Return what stands behind each text of a kind."""
    return "" if kind in STREAMS else "\n"


def content_of(text: str) -> dict[str, Any]:
    """Return the content of a message that carries gathered texts."""
    return {"data": {"text/plain": text}, "metadata": {"cellwright": {"source": "log"}}, "transient": {}}


def text_of(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return kind and text of what is shown, if it is a text alone that nothing refers to later."""
    data, metadata = content.get("data"), content.get("metadata")
    if not isinstance(data, dict) or data.keys() != {"text/plain"} or content.get("transient"):
        return None
    source = (metadata or {}).get("cellwright", {}).get("source", "display")
    return (source, data["text/plain"]) if source in ("display", "notice") else None


def divided(text: object, stretches: object) -> list[tuple[str, str]]:
    """Return kind and text of each; of what no kernel of ours sends, what can be made of it."""
    found: list[tuple[str, str]] = []
    if not isinstance(text, str) or not isinstance(stretches, list):
        return found
    at = 0
    for stretch in stretches:
        if not isinstance(stretch, list) or not stretch or stretch[0] not in TEXTS:
            continue
        behind = len(separator(stretch[0]))
        for chars in stretch[1:]:
            if not isinstance(chars, int) or not 0 <= chars <= len(text) - at:
                return found
            found.append((stretch[0], text[at : at + chars]))
            at += chars + behind
    return found
