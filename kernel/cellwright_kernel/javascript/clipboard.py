"""What Node asks of the clipboard -> the text, or the kernel host's word that a text can be pasted.

Flows in: Node's calls of `clipboard`. Flows out: what they return. Decided here: nothing; it is the Python kernel's own
clipboard.
"""

from __future__ import annotations

from typing import Any

from cellwright_kernel.clipboard.clipboard import Clipboard


class ClipboardCalls:
    """Does what Node asks of the clipboard."""

    def call(self, name: str, arguments: list[Any]) -> str | None:
        """Do one call."""
        primary, *text = arguments
        if name == "read":
            return Clipboard().read(primary=bool(primary))
        Clipboard().write(*text, primary=bool(primary))
        return None
