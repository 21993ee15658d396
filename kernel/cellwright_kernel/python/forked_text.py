"""Text of a child that a cell forked: there is one kernel, and the child is none.

Flows in: what is written to the streams in the child. Flows out: bytes at the descriptors, which come back to the kernel
through its pipes. Decided here: whole lines leave together, so that those of several children do not mix.
"""

from __future__ import annotations

import os

from cellwright_kernel.python.last_words import SLOT_BYTES
from cellwright_kernel.python.pipes import STREAM_FDS
from cellwright_kernel.python.plain_text import encode


class ForkedText:
    """Text of a forked child: whole lines, so that those of several children do not mix, to the descriptors."""

    def __init__(self) -> None:
        self._parts = dict.fromkeys(STREAM_FDS, "")

    def write(self, name: str, text: str) -> None:
        """Take text for one stream."""
        self._parts[name] += text
        if "\n" in text or len(self._parts[name]) > SLOT_BYTES:
            self.flush(name)

    def flush(self, name: str) -> None:
        """Write what is held back."""
        data, self._parts[name] = memoryview(encode(self._parts[name])), ""
        while data:
            data = data[os.write(STREAM_FDS[name], data) :]
