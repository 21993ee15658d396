"""Words from inside the sandbox, or from a model, made safe to be shown: on a terminal, in a notebook, in a page.

Flows in: text of a stranger. Flows out: the same text, in which nothing can move the cursor, set a title, hide or reorder
words. Decided here: control characters become their visible pictures; tab and newline stay. What HTML or Markdown make of a
character is not its business.
"""

from __future__ import annotations

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

_SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_SHOWN[0x7F] = "\u2421"
_SHOWN.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
_SHOWN.update({ord(mark): f"\\u{ord(mark):04x}" for mark in _BIDI})


def plain(text: str) -> str:
    """Return text that is shown and not obeyed; lone surrogates become question marks."""
    return text.translate(_SHOWN).encode("utf-8", "replace").decode("utf-8")
