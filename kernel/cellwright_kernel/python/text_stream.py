"""What stands at `sys.stdout` and `sys.stderr` in the kernel.

Flows in: text, and bytes through `.buffer`. Flows out: the same to the one ordered writer. Decided here: `flush` sends
nothing by itself, because a program that flushes each character must not cost a message each; the writer sends what is
due within 100 ms, and what a dying kernel did not send is in its last words.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable
from typing import Any

from cellwright_kernel.python.origin import current_origin
from cellwright_kernel.python.streams import Writer

_FILENO = {"stdout": 1, "stderr": 2}


class TextStream(io.TextIOBase):
    """A text file that writes to the ordered writer."""

    def __init__(self, writer: Writer, name: str) -> None:
        super().__init__()
        self._writer = writer
        self._stream = name
        self._buffer = _BinaryStream(self, name)
        self.line_buffering = True
        self.write_through = True

    @property
    def name(self) -> str:
        """`<stdout>` or `<stderr>`, as with the interpreter's own."""
        return f"<{self._stream}>"

    @property
    def mode(self) -> str:
        """As with the interpreter's own."""
        return "w"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Always UTF-8."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """Nothing raises: lone surrogates are replaced on the way out."""
        return "replace"

    @property
    def buffer(self) -> Any:
        """The same stream for bytes."""
        return self._buffer

    def write(self, text: str) -> int:
        """Take text; returns its length."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        writer = self._writer
        if writer.forked:
            writer.forked.write(self._stream, text)
        else:
            writer.write(current_origin(), self._stream, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        """Take several texts."""
        for line in lines:
            self.write(line)

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """1 or 2: a child that gets it writes into the same order."""
        return _FILENO[self._stream]

    def flush(self) -> None:
        """In the kernel nothing: see the module's docstring. A forked child lets go of an unfinished line."""
        if self._writer.forked:
            self._writer.forked.flush(self._stream)

    def reconfigure(self, **_ignored: Any) -> None:
        """Accept what scripts ask of a terminal's stream."""

    def close(self) -> None:
        """A cell that closes its stdout does not take it from the next one."""


class _BinaryStream(io.BufferedIOBase):
    """The bytes side of a text stream."""

    def __init__(self, text: TextStream, name: str) -> None:
        super().__init__()
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.raw = self
        self.name = name

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._text.write(self._decoder.decode(bytes(view)))
        return view.nbytes

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._text.fileno()

    def close(self) -> None:
        pass
