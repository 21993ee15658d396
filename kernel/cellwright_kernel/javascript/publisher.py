"""What Node says -> Jupyter messages, each under the cell that caused it.

Flows in: Node's messages, and bytes that child processes wrote to Node's descriptors 1 and 2. Flows out: the same messages
that the Python kernel sends. Decided here: what is one `stream` message: a run of writes to one stream, until something
else is said, 64 KiB, or 50 ms; that what a cell says after its first 200 messages is gathered likewise, whatever it is said
to, since Node says things faster than messages are sent; and which cell owns what nobody can be found for: the one that was posted last.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from cellwright_kernel import stretches
from cellwright_kernel.iopub import Iopub

_FLUSH_AFTER_S: Final = 0.05
_RUN_CHARS: Final = 64 * 1024
_MIXED: Final = "mixed"
"""Stands in a stream's place where texts of several kinds are gathered."""
_CELLS_KNOWN: Final = 10_000
"""Cells whose late output still finds its owner."""

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Posted:
    """One cell that was posted."""

    serial: int
    """Names it to Node; counts from 1 within the process."""
    number: int
    """Names it to the model."""
    header: dict[str, Any]
    """Header of its execute_request: the parent of all that it says."""


class Publisher:
    """Sends what cells say, in the order in which it comes.

    Args:
        iopub: Where to.
    """

    def __init__(self, iopub: Iopub) -> None:
        self._iopub = iopub
        self._cells: OrderedDict[int, Posted] = OrderedDict()
        self._run: tuple[int, str] | None = None
        self._texts: list[str] = []
        self._chars = 0
        self._missing = 0
        self._stretches = stretches.Stretches()
        self._short: dict[int, int] = {}
        """Serial number -> short messages that were sent; of cells that are known."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def latest(self) -> int:
        """Serial of the cell that was posted last; 0 before the first."""
        return next(reversed(self._cells), 0)

    def open(self, cell: Posted) -> None:
        """Get to know a cell."""
        self._cells[cell.serial] = cell
        if len(self._cells) > _CELLS_KNOWN:
            serial, _ = self._cells.popitem(last=False)
            self._short.pop(serial, None)

    def take(self, message: Message) -> None:
        """Take an output from Node."""
        serial = message.get("cell") or self.latest
        match message["type"]:
            case "stream":
                self.write(serial, message["name"], message["text"], message.get("missing", 0))
            case "log":
                note = {"missing_chars": message["missing"]} if message.get("missing") else {}
                self._show(serial, {"text/plain": message["text"]}, "log", note)
            case "shown":
                self._show(serial, message["data"], message["source"], {})
            case "result":
                content = {"data": {"text/plain": message["text"]}, "metadata": {"cellwright": {"source": "result"}}}
                self._send(serial, "execute_result", content | {"execution_count": self._number(serial)})
            case "error":
                self._send(serial, "error", message["content"])

    def write(self, serial: int, name: str, text: str, missing: int = 0) -> None:
        """Take text of `stdout` or `stderr`."""
        if not missing and self._is_gathered(serial, name, text):
            return
        if self._run != (serial, name) or missing or self._chars + len(text) > _RUN_CHARS:
            self.flush()
            self._run = (serial, name)
            self._missing = missing
        self._gather(text)

    def flush(self) -> None:
        """Send what is gathered of a stream."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._run is None:
            return
        (serial, name), self._run = self._run, None
        text, self._texts, self._chars = "".join(self._texts), [], 0
        if name == _MIXED:
            self._publish(serial, "display_data", stretches.content_of(text), {"stretches": self._stretches.take()})
            return
        note = {"missing_chars": self._missing} if self._missing else {}
        self._publish(serial, "stream", {"name": name, "text": text}, note)

    def notice(self, sentence: str) -> None:
        """Tell the model something in Cellwright's own words, under the latest cell."""
        self._show(self.latest, {"text/plain": sentence}, "notice", {})

    def close(self) -> None:
        """Send the last of it."""
        self.flush()

    def _show(self, serial: int, data: dict[str, str], source: str, note: dict[str, Any]) -> None:
        if not note and data.keys() == {"text/plain"} and self._is_gathered(serial, source, data["text/plain"]):
            return
        content = {"data": data, "metadata": {"cellwright": {"source": source}}, "transient": {}}
        self._send(serial, "display_data", content, {**note, "source": source})

    def _is_gathered(self, serial: int, kind: str, text: str) -> bool:
        """Gather a text if its cell has said much and this is short."""
        if self._short.get(serial, 0) < stretches.SINGLY or len(text) >= stretches.SHORT:
            return False
        is_full = self._chars + len(text) > _RUN_CHARS or self._stretches.texts >= stretches.MOST
        if is_full or self._run != (serial, _MIXED):
            self.flush()
            self._run = (serial, _MIXED)
        self._stretches.add(kind, len(text))
        self._gather(text + stretches.separator(kind))
        return True

    def _gather(self, text: str) -> None:
        self._texts.append(text)
        self._chars += len(text)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_AFTER_S, self.flush)

    def _send(self, serial: int, msg_type: str, content: Message, note: dict[str, Any] | None = None) -> None:
        self.flush()
        self._publish(serial, msg_type, content, note or {})

    def _publish(self, serial: int, msg_type: str, content: Message, note: dict[str, Any]) -> None:
        cell = self._cells.get(serial) or self._cells.get(self.latest)
        if cell is not None:
            if len(content.get("text", "")) < stretches.SHORT:
                self._short[cell.serial] = self._short.get(cell.serial, 0) + 1
            metadata = {"cellwright": note} if note else {}
            self._iopub.gate.run(lambda: self._iopub.message(msg_type, content, cell.header, metadata))

    def _number(self, serial: int) -> int:
        cell = self._cells.get(serial)
        return cell.number if cell else 0
