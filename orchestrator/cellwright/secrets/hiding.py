"""Texts and bytes with a run's secrets -> the same without them.

Flows in: what was said inside, whole or piece by piece. Flows out: the same, with `[secret NAME]` where a value stood in any
of its forms. Decided here: of a text that comes in pieces, what may be the beginning of a value is held back until it is
known; and beside a cut, where the rest of a value is missing, what is left of it goes, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from cellwright.secrets.forms import Form, forms_of

_CUT: Final = re.compile(r"(\[\.\.\. [^\]]* \.\.\.\])")
"""How the inside marks a cut."""
_LEAST_CUT: Final = 4
"""Characters of a value that count as a part of it beside a cut."""
_PART_BYTES: Final = 1024 * 1024
_WRAPPING: Final = str.maketrans("", "", "\r\n")


class Hider:
    """Hides values; false when there are none.

    Args:
        values: Name -> value.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        # the longest first: one value may be a part of another
        ordered = sorted(values.items(), key=lambda item: len(item[1]), reverse=True)
        self._forms = [(f"[secret {name}]", form) for name, value in ordered for form in forms_of(value)]
        self._raw = {name: value.encode() for name, value in values.items()}
        self._by_first: defaultdict[str, list[Form]] = defaultdict(list)
        for _, form in self._forms:
            for char in form.first_chars:
                self._by_first[char].append(form)
        self._most = max((form.most_chars for _, form in self._forms), default=0)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def hide(self, text: str) -> str:
        """Return a text without values."""
        squeezed = text.replace("\\r", "").replace("\\n", "").translate(_WRAPPING) if self._forms else ""
        for instead, form in self._forms:
            if form.hint in (squeezed if form.is_base64 else text):
                text = form.pattern.sub(instead, text)
        return text

    def hide_cut(self, text: str) -> str:
        """Return a text out of whose middle something was left without values, and without what is left of one there."""
        before, *rest = _CUT.split(self.hide(text))
        for mark, after in zip(rest[::2], rest[1::2], strict=True):
            before = before[: len(before) - self._begun(before)] + mark + after[self._ended(after) :]
        return before

    def found_in(self, data: bytes) -> str | None:
        """Return the name of a secret whose value stands in bytes as it is; None when none does."""
        return next((name for name, raw in self._raw.items() if raw in data), None)

    def said_in(self, data: bytes) -> str | None:
        """Return the name of a secret whose value a file says, in any form that is found in texts; None when none does.

        The file is read in parts, so that others have their turn meanwhile, and a byte for a character, whatever it is: 50 MB of
        no text took 5 s when they were decoded.
        """
        forms = [(instead, form.of_bytes()) for instead, form in self._forms]
        overlap = max((form.most_chars for _, form in forms), default=0)
        for at in range(0, len(data), _PART_BYTES):
            part = data[at : at + _PART_BYTES + overlap]
            squeezed = part.replace(b"\\r", b"").replace(b"\\n", b"").translate(None, b"\r\n").decode("latin-1")
            text = part.decode("latin-1")
            for instead, form in forms:
                if form.hint in (squeezed if form.is_base64 else text) and form.pattern.search(text):
                    return instead.removeprefix("[secret ").removesuffix("]")
        return None

    def stream(self) -> Stream:
        """Return what hides values in a text that comes in pieces."""
        return Stream(self)

    def held_back(self, text: str) -> int:
        """Return how many characters at a text's end may be the beginning of a value."""
        for at in range(max(0, len(text) - self._most), len(text)):
            if text[at] in self._by_first and any(form.may_begin(text[at:]) for form in self._by_first[text[at]]):
                return len(text) - at
        return 0

    def _begun(self, text: str) -> int:
        text, breaks = text.rstrip("\n"), len(text) - len(text.rstrip("\n"))
        held = self.held_back(text)
        return held + breaks if held >= _LEAST_CUT else 0

    def _ended(self, text: str) -> int:
        breaks = len(text) - len(text.lstrip("\n"))
        text = text[breaks:]
        for end in range(min(len(text), self._most), _LEAST_CUT - 1, -1):
            if any(form.may_end(text[:end]) for _, form in self._forms):
                return breaks + end
        return 0


class Stream:
    """A text that comes in pieces. Made by `Hider.stream`."""

    def __init__(self, hider: Hider) -> None:
        self._hider = hider
        self._held = ""

    def take(self, piece: str) -> str:
        """Add a piece; return what can be let go of."""
        text = self._hider.hide(self._held + piece)
        held = self._hider.held_back(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """Return what was held back; nothing more comes."""
        rest, self._held = self._held, ""
        return rest
