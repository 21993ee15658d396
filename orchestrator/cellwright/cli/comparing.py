"""How two runs are compared, said the same way by `replay` and `diff`.

Flows in: the words after `--mask`, `--may-differ` and `--explain`. Flows out: areas of pictures and rules of texts. Decided here: how
an area is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.errors import UsageError
from cellwright.replay.may_differ import MayDiffer
from cellwright_kernel.wire import Area

_AREA_NUMBERS: Final = 4


@dataclass(frozen=True, kw_only=True)
class ComparingOptions:
    """The options, as they were given; absent: not given."""

    mask: Annotated[
        list[str] | None,
        typer.Option("--mask", metavar="X,Y,W,H", help="Do not look at this area of pictures; may be repeated."),
    ] = None
    may_differ: Annotated[
        list[Path] | None,
        typer.Option("--may-differ", metavar="FILE", help="More rules (TOML) of what texts may say differently."),
    ] = None
    explain: Annotated[bool, typer.Option("--explain", help="Show what was left out of the comparison.")] = False

    def rules(self) -> MayDiffer:
        """Return what texts may say differently; raises UsageError for a file that holds no rules."""
        return MayDiffer.read(*(self.may_differ or ()))

    def masks(self) -> tuple[Area, ...]:
        """Return the areas that are not looked at; raises UsageError for words that say none."""
        return tuple(_area_from(word) for word in self.mask or ())


def _area_from(word: str) -> Area:
    """Return the area of a picture that a word such as `1300,0,140,24` says; raises UsageError when it says none."""
    parts = [part.strip() for part in word.split(",")]
    if len(parts) != _AREA_NUMBERS or not all(part.isdecimal() for part in parts):
        raise UsageError(
            f"--mask {word!r} is no area of a picture. Nothing ran. Write X,Y,W,H in pixels, such as 1300,0,140,24."
        )
    return Area(*map(int, parts))
