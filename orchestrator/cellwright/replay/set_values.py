"""Parameters of a run that have other values when it is done again.

Flows in: the values of the record, and those of now. Flows out: a text of the record as the new values may have changed it. Decided
here: what a value is expected to change: where the old one stands in a text, the new one may stand, line by line: a line is
either as it was, or has the new value everywhere; and nothing else. An old value inside a longer word or number is none. And that a
text stays as it is where that would take too long, or make too much of it: run and values may be a stranger's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from cellwright.errors import UsageError
from cellwright.record import Run
from cellwright.sandbox.base import PARAM_NAME

_PARAMS: Final = re.compile(r"\bparams\b")
_MOST_COMPARED: Final = 2**31
"""Characters of a text, times those of the longest old value in it: 4 s, where every place almost has the value."""
_MOST_CHARS: Final = 16 * 1024**2
"""Of a text with the new values in it."""
_MOST_WAYS: Final = 8
"""In which values are replaced, where several had the same."""


@dataclass(frozen=True)
class SetValues:
    """Values that are others than in the record."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Each the old value and the new one."""

    def __bool__(self) -> bool:
        return len(self.pairs) > 0

    def in_texts(self, recorded: str) -> tuple[str, ...]:
        """Return a text of the record with every old value replaced, once for each way: two that were the same may be two now.

        An empty one stands nowhere.
        """
        new: dict[str, list[str]] = {}
        for old, now in self.pairs:
            if old and old in recorded and now not in new.setdefault(old, []):
                new[old].append(now)
        if not new or len(recorded) * max(map(len, new)) > _MOST_COMPARED:
            return (recorded,)
        olds = re.compile("|".join(map(_standing_alone, sorted(new, key=len, reverse=True))))  # the longest that fits
        ways = (dict(zip(new, way, strict=True)) for way in islice(product(*new.values()), _MOST_WAYS))
        return tuple(_replaced(recorded, olds, way) for way in ways)


NO_VALUES: Final = SetValues()


def values_of(run: Run) -> dict[str, str]:
    """Return the parameters of a run; none for one of before there were any. A name that is none was made up by somebody."""
    said = run.info.spec.get("params")
    pairs = said.items() if isinstance(said, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str) and re.fullmatch(PARAM_NAME, name)}


def set_values(run: Run, given: Mapping[str, str]) -> SetValues:
    """Return what is different from the record.

    Raises:
        UsageError: A name is none of the run's parameters.
    """
    known = values_of(run)
    if unknown := sorted(given.keys() - known.keys()):
        has = ", ".join(sorted(known)) or "none: they are said by `cellwright run --param NAME=VALUE`"
        raise UsageError(f"--set {unknown[0]}: the run has no such parameter. Nothing ran. It has: {has}.")
    return SetValues(tuple((known[name], value) for name, value in given.items() if value != known[name]))


def as_expected(recorded: str, replaced: Sequence[str], other: str) -> str:
    """Return the text that a replay is expected to say: of each line of the record the one of its forms that it says.

    Args:
        recorded: The record's text, what may differ taken out.
        replaced: The same with the new values, in each way.
        other: What the replay said.
    """
    if other in (recorded, *replaced):
        return other
    ones, others = recorded.split("\n"), other.split("\n")
    ways = [lines for text in replaced if len(lines := text.split("\n")) == len(ones)]
    if not ways:
        return replaced[0]
    if len(ones) == len(others):
        each = zip(others, ones, *ways, strict=True)
        return "\n".join(now if now in forms else forms[1] for now, *forms in each)
    said = set(others)  # it differs; this is for who reads where
    return "\n".join(one if one in said and two not in said else two for one, two in zip(ones, ways[0], strict=True))


def first_cell_that_may_change(run: Run) -> int:
    """Return the number of the first cell that names `params`: what is seen before it cannot come of a value."""
    return next((cell.opened.number for cell in run.stored_cells if _PARAMS.search(cell.opened.code)), 1)


def _replaced(recorded: str, olds: re.Pattern[str], new: Mapping[str, str]) -> str:
    more = sum(len(new[found[0]]) - len(found[0]) for found in olds.finditer(recorded))
    return recorded if len(recorded) + more > _MOST_CHARS else olds.sub(lambda found: new[found[0]], recorded)


def stands_in(text: str, value: str) -> bool:
    """Return whether a value stands in a text, and not within a longer word or number; an empty one stands nowhere."""
    return value != "" and re.search(_standing_alone(value), text) is not None


def _standing_alone(value: str) -> str:
    """A pattern for a value that is no part of a longer word or number."""
    return f"{_edge(value[0], before=True)}{re.escape(value)}{_edge(value[-1], before=False)}"


def _edge(end: str, *, before: bool) -> str:
    if end.isdecimal():
        return r"(?<!\d)(?<!\d[.,])" if before else r"(?![.,]?\d)"
    if end.isalpha():
        return r"(?<![^\W\d_])" if before else r"(?![^\W\d_])"
    return ""
