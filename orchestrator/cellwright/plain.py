"""Words from inside the sandbox, or from a model, made safe to be shown: on a terminal, in a notebook, in a page.

Flows in: text of a stranger. Flows out: the same text, in which nothing can move the cursor, set a title, hide or reorder
words. Decided here: control characters become their visible pictures; tab and newline stay; what ends a line for JavaScript and for no terminal,
or has no width or picture of its own, is spelt out; and by which sign a stranger's further lines are told from ours. What HTML or Markdown make
of a character is not its business.
"""

from __future__ import annotations

_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_LINES = "\u2028\u2029"
_UNSEEN = "\u115f\u1160\u180e\u200b\u2060\u2061\u2062\u2063\u2064\u3164\ufeff\uffa0"
"""Without the two joiners, which scripts and emoji are written with."""

_SHOWN = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"}
_SHOWN[0x7F] = "\u2421"
_SHOWN.update({code: f"\\x{code:02x}" for code in range(0x80, 0xA0)})
_SHOWN.update({ord(mark): f"\\u{ord(mark):04x}" for mark in _BIDI + _LINES + _UNSEEN})


def plain(text: str) -> str:
    """Return text that is shown and not obeyed; lone surrogates become question marks."""
    return text.translate(_SHOWN).encode("utf-8", "replace").decode("utf-8")


def barred(text: str) -> str:
    """Return text whose lines but the first stand behind a bar, so that none can be taken for a line of ours."""
    return text.replace("\n", "\n  | ")
