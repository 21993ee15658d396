"""The colours of what a cell wrote, the same while a run goes on and when it is shown later.

Flows in: nothing. Flows out: a style of rich for each source that has one. Decided here: the colours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

STYLE_OF_SOURCE: Final[Mapping[str, str]] = {"stderr": "magenta", "error": "red", "notice": "italic yellow"}
