"""The one ordered writer: whatever a cell says, in the order it was said.

Flows in: text written in Python, text that child processes write to descriptors 1 and 2 (`pipes.py`), and messages (log,
display, result, error). Flows out: `stream` and other messages on iopub, each with the header of the cell it belongs to.
Decided here: the order, what is one message, and what is cut. Before every write in Python the pipes are drained, so
`print(1)`, a child's 2 and `print(3)` stay in order. A run of writes to one stream is sent when the other
stream speaks, when something else is shown, at the cell's end, at 64 KiB, or after 100 ms. What a cell says after its first
200 messages is gathered likewise, whatever it is said to: code says things faster than messages are read. A cell that has
ended has little room (`origin.py`): what it left running must not stand before what the next one says.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from cellwright_kernel import stretches
from cellwright_kernel.iopub import Gate, Iopub
from cellwright_kernel.late_pace import TELL_EVERY_S
from cellwright_kernel.python.forked_text import ForkedText
from cellwright_kernel.python.last_pipes import PipesGiver
from cellwright_kernel.python.last_words import SLOT_BYTES, LastWordsBox
from cellwright_kernel.python.origin import Origin
from cellwright_kernel.python.overflow import Overflow, shortened, shortened_text
from cellwright_kernel.python.pipes import Pipes
from cellwright_kernel.python.plain_text import encode

_MIXED = "mixed"
"""Stands in a stream's place where texts of several kinds are gathered."""
_FLUSH_AFTER_S = 0.1
_CHUNK_CHARS = SLOT_BYTES // 4
"""At most four bytes a character, so a chunk always fits in a slot."""


class Writer:
    """Orders, merges and bounds everything that cells say. One per kernel process; any thread may use it."""

    def __init__(self, iopub: Iopub, box: LastWordsBox, real_stderr: int, pipes: PipesGiver) -> None:
        self._iopub = iopub
        self._real_stderr = real_stderr
        self._gate: Gate = iopub.gate
        self._box = box
        self._last_pipes = pipes
        self._run: tuple[Origin, str] | None = None
        self._run_since = 0.0
        self._stretches = stretches.Stretches()
        self._overflows: dict[Origin, Overflow] = {}
        self._pipes = Pipes(iopub, box, self._take)
        self._told_at = 0.0
        """When it was told last what ended cells say beyond their room."""
        self._asleep = False
        self.forked: ForkedText | None = None
        """In a forked child: where its text goes, which comes back to its parent through the pipes."""
        os.register_at_fork(after_in_child=self._in_child)

    def start(self) -> None:
        """Start the thread that reads the pipes, so that no child ever waits, and that sends what is due."""
        self._pipes.start()
        threading.Thread(target=self._read_forever, name="Output", daemon=True).start()

    def open(self, origin: Origin) -> None:
        """Begin a cell: what is written to descriptors 1 and 2 from now on is its own."""
        self._gate.run(lambda: self._open(origin))

    def close(self, origin: Origin) -> None:
        """End a cell: all that it has written so far is sent before this returns."""

        def act() -> None:
            self._pipes.drain()
            self._flush()
            self._flush_overflow(origin)
            origin.end()

        self._gate.run(act)

    def write(self, origin: Origin | None, name: str, text: str) -> None:
        """Take text for `stdout` or `stderr`."""
        if origin is None:  # before the first cell: a diagnostic of the kernel's own
            os.write(self._real_stderr, encode(text))
            return
        gate = self._gate
        with gate.lock:
            if gate.busy:
                gate.later.append(lambda: self.write(origin, name, text))
                return
            gate.busy = True
            try:
                if self._pipes.poll(0):
                    self._pipes.drain()
                run, box = self._run, self._box
                if run is not None and run[0] is origin and run[1] is name and box.fits(text):
                    # the short way for the many small writes of a loop: 1.5 µs in place of 3
                    data = text.encode()
                    box.add(data)
                    origin.room -= len(data)
                else:
                    self._take(origin, name, text)
            finally:
                gate.busy = False
        if gate.later or gate.on_leave:
            gate.left()

    def log(self, origin: Origin | None, text: str) -> None:
        """Send one text item, exactly as it is."""
        if origin is not None:
            self._gate.run(lambda: self._log(origin, text))

    def message(
        self,
        origin: Origin | None,
        msg_type: str,
        content: dict[str, Any],
        *,
        size: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Send something other than text of a stream, behind all that was written before it.

        Args:
            origin: The cell it belongs to; without one nothing is sent.
            msg_type: Jupyter's name of the message.
            content: Its content, ready for JSON.
            size: Bytes that it takes of the cell's room. When there is none left, a few texts are shortened and small
                images sent; what comes after is counted and dropped.
            metadata: Of the message, not of its content.
        """
        if origin is None:
            return

        def act() -> None:
            self._pipes.drain()
            text = stretches.text_of(content) if msg_type == "display_data" else None
            if text is not None and self._is_gathered(origin, text[1]):
                self._gather(origin, *text)
                return
            self._flush()
            notes = metadata or {}
            if size > origin.room + origin.reserve:
                short = shortened(content.get("data", {})) if origin.extras > 0 else None
                if short is None:
                    self._overflow(origin).count_item()
                    return
                origin.extras -= 1
                notes = {**notes, "cellwright": {**notes.get("cellwright", {}), **short}}
            else:
                origin.take_for_shown(size)
            self._flush_overflow(origin)
            self._send(origin, msg_type, content, notes, size)

        self._gate.run(act)

    def send_all(self) -> None:
        """Send what is gathered; for the process's end."""

        def act() -> None:
            self._pipes.drain()
            self._flush()
            for origin in list(self._overflows):
                self._flush_overflow(origin)

        self._gate.run(act)

    # From here on: only with the gate entered.

    def _open(self, origin: Origin) -> None:
        self._box.begun(origin.msg_id)
        self._pipes.drain()
        self._flush()
        self._last_pipes.hand_over(origin.msg_id, self._pipes.open(origin))

    def _take(self, origin: Origin, name: str, text: str) -> None:
        if not text:
            return
        if origin.room <= 0 or origin in self._overflows:
            self._overflow(origin).add(name, text)
            return
        end = min(len(text), origin.room)
        if end < len(text):
            self._overflow(origin).add(name, text, end)
        if len(text) <= _CHUNK_CHARS:
            self._gather(origin, name, text[:end])
            return
        for at in range(0, end, _CHUNK_CHARS):
            self._gather(origin, name, text[at : min(at + _CHUNK_CHARS, end)])

    def _gather(self, origin: Origin, name: str, text: str) -> None:
        kind = _MIXED if self._is_gathered(origin, text) else name
        data = encode(text + stretches.separator(name))
        run = self._run
        if run is None or run[0] is not origin or run[1] != kind or self._is_full(len(data)):
            self._flush()
            self._run = (origin, kind)
            self._run_since = time.monotonic()
            self._box.begin("log" if kind == _MIXED else kind, origin.msg_id)
            if self._asleep:
                self._asleep = False
                self._pipes.wake()
        if kind == _MIXED:
            self._stretches.add(name, len(data if text.isascii() else data.decode()) - len(stretches.separator(name)))
        self._box.add(data)
        origin.room -= len(data)

    def _is_full(self, more: int) -> bool:
        return self._box.used + more > SLOT_BYTES or self._stretches.texts >= stretches.MOST

    def _is_gathered(self, origin: Origin, text: str) -> bool:
        """Whether a text is to be gathered with others: it is short, and its cell has said much."""
        is_short = len(text) < min(stretches.SHORT, origin.room)
        return is_short and origin.short >= stretches.SINGLY and origin not in self._overflows

    def _flush(self) -> None:
        if self._run is None:
            return
        (origin, name), self._run = self._run, None
        text, notes = self._box.text(), {"seq": self._box.seq}
        if name == _MIXED:
            self._send(
                origin,
                "display_data",
                stretches.content_of(text),
                {"cellwright": {**notes, "stretches": self._stretches.take()}},
                0,
            )
        else:
            self._stream(origin, name, text, notes)

    def _stream(self, origin: Origin, name: str, text: str, notes: dict[str, int]) -> None:
        self._send(origin, "stream", {"name": name, "text": text}, {"cellwright": notes}, len(text))

    def _log(self, origin: Origin, text: str) -> None:
        self._pipes.drain()
        if self._is_gathered(origin, text):
            self._gather(origin, "log", text)
            return
        self._flush()
        if origin in self._overflows or (len(text) > origin.room and origin.extras <= 0):
            self._overflow(origin).add("log", text)
            return
        notes: dict[str, int] = {}
        if len(text) > origin.room:
            origin.extras -= 1
            text, notes = shortened_text(text)
        data = encode(text)
        origin.room -= len(data)
        self._box.begin("log", origin.msg_id)
        if len(data) <= SLOT_BYTES:
            self._box.add(data)
        self._send_log(origin, data.decode(), {"seq": self._box.seq, **notes})

    def _send_log(self, origin: Origin, text: str, notes: dict[str, int]) -> None:
        content = {"data": {"text/plain": text}, "metadata": {"cellwright": {"source": "log"}}, "transient": {}}
        self._send(origin, "display_data", content, {"cellwright": {**notes, "source": "log"}}, len(text))

    def _send(
        self, origin: Origin, msg_type: str, content: dict[str, Any], metadata: dict[str, Any], size: int
    ) -> None:
        if size < stretches.SHORT:
            origin.short += 1
        self._iopub.message(msg_type, content, origin.parent, metadata)

    def _overflow(self, origin: Origin) -> Overflow:
        return self._overflows.setdefault(origin, Overflow())

    def _flush_overflow(self, origin: Origin) -> None:
        overflow = self._overflows.get(origin)
        if overflow is None:
            return
        for name, text, notes in overflow.take():
            send = self._send_log if name == "log" else lambda *args, name=name: self._stream(args[0], name, *args[1:])
            send(origin, encode(text).decode(), notes)

    # The reading thread.

    def _read_forever(self) -> None:
        while True:
            ready = self._pipes.poll(-1 if self._asleep else _FLUSH_AFTER_S)
            self._gate.run(lambda ready=ready: self._look([fd for fd, _ in ready]))  # type: ignore[misc]

    def _look(self, ready: list[int]) -> None:
        self._pipes.look(ready)
        now = time.monotonic()
        if self._run is not None and now - self._run_since >= _FLUSH_AFTER_S:
            self._flush()
        must_wait = self._pipes.resume()
        ended = [origin for origin in self._overflows if not origin.running]
        if ended and now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            for origin in ended:
                self._flush_overflow(origin)
                del self._overflows[origin]
        self._asleep = not (ready or self._run or must_wait or ended)

    def _in_child(self) -> None:
        self.forked = ForkedText()
        self._gate.forget()
