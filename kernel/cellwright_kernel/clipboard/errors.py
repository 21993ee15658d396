"""What can go wrong with the clipboard, and how long a text may be.

For both sides of the socket, so nothing is imported here.
"""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 64 << 20
"""A text may have so many, in UTF-8."""


class ClipboardError(RuntimeError):
    """The clipboard could not be read or written."""

    is_no_text = False
    """Whether there is something, but no text."""


class NoText(ClipboardError):
    """A picture was copied, or something else that has no text."""

    is_no_text = True


class DisplayEnded(ClipboardError):
    """There is no display; usually it is being started again."""
