"""What two runs of the same code may say differently, taken out of their texts.

Flows in: a text, and the moment at which its cell ran. Flows out: the text in a form that is the same for both, and what
was replaced. Decided here: how a rule is read; that of a line which a program wrote over and over only the last state
counts; that a moment is only taken out where it lies near the cell's own, so that dates in the data still count; and that
nothing is taken out of texts above a ceiling, which a stranger's run may have.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from cellwright.errors import UsageError
from cellwright.replay.set_values import NO_VALUES, SetValues, as_expected

Reads = Literal["iso", "http", "clock", "epoch"]

_NEAR: Final = timedelta(hours=36)
"""From a moment to the cell's own start: time zones are up to 14 hours apart, and a cell may run for a day."""
_NEAR_CLOCK: Final = timedelta(minutes=2)
"""The same of a time of day, in whichever time zone that is whole or half hours away."""
_HALF_HOUR_S: Final = 1800
_EPOCH_DIGITS: Final = 10


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{error}") from error
    return pattern


class Rule(BaseModel):
    """One kind of thing that may differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_ -]{0,30}$")
    """Stands, as `<name>`, in the place of what is found."""
    pattern: Annotated[str, AfterValidator(_compiles)]
    """As in `re`; with a group `value` only that group is replaced."""
    reads: Reads | None = None
    """What is found must be a moment near the cell's own, written so; absent: anything that is found."""


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Replaced:
    """One thing that was taken out of a text."""

    name: str
    """Of its rule."""
    text: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A text without what may differ."""

    text: str
    replaced: tuple[Replaced, ...]
    """In the order of the rules, and of the text."""


class MayDiffer:
    """All rules of one replay, in order.

    Args:
        rules: What is looked for; an earlier one wins.
        values: Parameters that are others than in the record.
    """

    def __init__(self, rules: Iterable[Rule], values: SetValues = NO_VALUES) -> None:
        self._rules = [(rule, re.compile(rule.pattern)) for rule in rules]
        self._values = values

    @classmethod
    def read(cls, *added: Path) -> MayDiffer:
        """Return the rules that every replay has, after those of files of the user's.

        Raises:
            UsageError: A file cannot be read, or holds no rules.
        """
        own = files(__package__).joinpath("may_differ.toml").read_text(encoding="utf-8")
        return cls([*(rule for path in added for rule in _rules_of(path)), *_parsed(own)])

    def plain(self, text: str, moment: datetime) -> Plain:
        """Return a text without what may differ.

        Args:
            text: What a cell said.
            moment: When the cell was started, with a time zone.
        """
        replaced: list[Replaced] = []
        text = _last_states(text.replace("\r\n", "\n"))
        for rule, pattern in self._rules:
            text = pattern.sub(partial(_without, rule, moment, replaced), text)
        return Plain(text, tuple(replaced))

    def with_values(self, values: SetValues) -> MayDiffer:
        """Return the same rules, by which what other values of parameters change may differ, too."""
        return MayDiffer([rule for rule, _ in self._rules], values)

    def both(self, one: tuple[str, datetime], other: tuple[str, datetime], most_chars: int) -> tuple[Plain, Plain]:
        """Return two texts without what may differ; as they are where one is longer than so many characters.

        Args:
            one: A text of the record, and its moment.
            other: The same of another run.
            most_chars: Of each.
        """
        if max(len(one[0]), len(other[0])) > most_chars:
            return Plain(one[0], ()), Plain(other[0], ())
        recorded, said = self.plain(*one), self.plain(*other)
        if not self._values:
            return recorded, said
        # replaced first: a rule might take the old value out
        replaced = [self.plain(text, one[1]).text for text in self._values.in_texts(one[0])]
        return replace(recorded, text=as_expected(recorded.text, replaced, said.text)), said


def _last_states(text: str) -> str:
    """Return a text with the last state of each line that was written over."""
    if "\r" not in text:
        return text
    return "\n".join(_last_state(line) if "\r" in line else line for line in text.split("\n"))


def _last_state(line: str) -> str:
    states = line.rstrip("\r")  # what stands before the last return is still to be seen
    return states.rpartition("\r")[2] + line[len(states) :]


def _rules_of(path: Path) -> tuple[Rule, ...]:
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # no TOML, no text, or no rules
        why = _first(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(
            f"{path} holds no rules of what may differ: {why}. Each is a [[rule]] with a name and a pattern. Nothing ran."
        ) from error


def _parsed(text: str) -> tuple[Rule, ...]:
    return _Rules.model_validate(tomllib.loads(text)).rule


def _first(error: ValidationError) -> str:
    fault = error.errors()[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"


def _without(rule: Rule, moment: datetime, replaced: list[Replaced], found: re.Match[str]) -> str:
    group = "value" if "value" in found.re.groupindex else 0
    text = found[group]
    if text is None or (rule.reads is not None and not _READ[rule.reads](text, moment)):
        return found[0]
    replaced.append(Replaced(rule.name, text))
    begin, end = found.start(group) - found.start(), found.end(group) - found.start()
    return f"{found[0][:begin]}<{rule.name}>{found[0][end:]}"


def _is_near_iso(text: str, moment: datetime) -> bool:
    date, rest = text[:10], re.split(r"[Zz]|UTC|[+-]\d\d:?\d\d$", text[11:])[0].strip()
    time = re.sub(r"[.-]", ":", rest.replace(",", "."), count=2)
    try:
        found = datetime.fromisoformat(f"{date}T{time}" if time else date)
    except ValueError:
        return False
    return abs(found.replace(tzinfo=UTC) - moment) <= _NEAR


def _is_near_http(text: str, moment: datetime) -> bool:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return False
    return abs(found.replace(tzinfo=UTC) - moment) <= _NEAR


def _is_near_epoch(text: str, moment: datetime) -> bool:
    digits = text.partition(".")[0]
    seconds: float = int(digits) / 10 ** (len(digits) - _EPOCH_DIGITS)
    return abs(seconds - moment.timestamp()) <= _NEAR.total_seconds()


def _is_near_clock(text: str, moment: datetime) -> bool:
    hours, minutes, *_ = (int(part) for part in re.split("[:.,]", text))
    away_s = ((hours * 60 + minutes) * 60 - moment.timestamp()) % _HALF_HOUR_S
    is_time = hours < 24 and minutes < 60
    return is_time and min(away_s, _HALF_HOUR_S - away_s) <= _NEAR_CLOCK.total_seconds()


_READ: Final[Mapping[Reads, Callable[[str, datetime], bool]]] = {
    "iso": _is_near_iso,
    "http": _is_near_http,
    "epoch": _is_near_epoch,
    "clock": _is_near_clock,
}
