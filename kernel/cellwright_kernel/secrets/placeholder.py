"""What stands for a secret in a header, inside, and where it means nothing.

Flows in: nothing. Flows out: how every placeholder begins; what Playwright calls typing; the sentences that refuse one. Decided
here: all that, for both sides and both languages: the outside makes placeholders and the inside knows them by it. It stands apart
from the values on the wire because the kernels need it, and importing those takes 100 ms.
"""

from __future__ import annotations

import json
from typing import Final

PLACEHOLDER: Final = "CellwrightSecret_"
"""Letters and an underscore, which no encoding changes."""

TYPING: Final = ("fill", "type", "keyboardType", "keyboardInsertText")
"""Playwright's own words for what types a text, the same in both languages."""

TYPED: Final = (
    "What stands for a secret in a header was to be typed; it would be typed as it is, and mean nothing there. Nothing was "
    "typed. Use `secrets.type(name)`."
)
ENCRYPTED: Final = (
    "What stands for a secret was to go into an https:// request, which is encrypted in here, so that nothing outside can "
    "put the value in its place. Nothing was sent. Write http://HOST:443/ instead: that leaves encrypted."
)


def for_node() -> str:
    """Return all of it as Node is given it."""
    return json.dumps({"beginning": PLACEHOLDER, "typing": TYPING, "typed": TYPED, "encrypted": ENCRYPTED})
