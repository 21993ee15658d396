"""What models cost: a table that the user can add to, and the price of one model in it.

Flows in: the table that comes with Cellwright, the user's own, a model's name. Flows out: its `Price`, or that it is not known;
and dollars for tokens. Decided here: that the user's entries come first, and the first that fits counts; that the name alone says what
a model costs, never the address that it is asked at, since a server on this machine may pass requests on to one that sends bills.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from cellwright.errors import UsageError
from cellwright.model.base import Usage

_MILLION: Final = 1_000_000
_SHIPPED: Final = "Cellwright's examples, which nobody checked for you"
_FILE_BYTES: Final = 1024 * 1024
_MOST: Final = 10**15
"""No price is higher, nor a number of tokens."""


def dollars(amount: float) -> str:
    """Return an amount as a person reads it: cents, and of less than a dollar their hundredths."""
    return f"${amount:,.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


@dataclass(frozen=True, kw_only=True)
class Price:
    """What one kind of model costs, in US dollars per million tokens."""

    model: str
    """Its name; `*` stands for anything."""
    input: float
    output: float
    """Output tokens, reasoning among them."""
    cached_input: float | None = None
    """Input tokens that were in the server's cache; absent: as `input`."""
    cache_write: float | None = None
    """Input tokens that the server wrote into it; absent: as `input`."""
    long_over: int | None = None
    """A request with more input tokens costs more, all of it; absent: none does."""
    long_input: float = 1.0
    """So many times as much, its input."""
    long_output: float = 1.0
    """So many times as much, its output."""
    source: str = "a table of your own"
    """Whose word it is."""

    def of(self, usage: Usage) -> float:
        """Return what a request costs, in dollars, given what its response said that it used."""
        is_long = self.long_over is not None and usage.input_tokens > self.long_over
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        plain = usage.input_tokens - cached - written
        put_in = plain * self.input + cached * self._cached + written * self._written
        put_out = usage.output_tokens * self.output
        return (
            put_in * (self.long_input if is_long else 1) + put_out * (self.long_output if is_long else 1)
        ) / _MILLION

    def of_said(self, usage: Usage) -> float | None:
        """Return the same; None where the server said nothing of what was used, and it would cost something."""
        return self.of(usage) if usage.total_tokens or not (self.input or self.output) else None

    def at_most(self, input_tokens: int, output_tokens: int) -> float:
        """Return what a request may cost, in dollars: nothing of it found in the cache, all of it written into it."""
        dear = Usage(input_tokens, output_tokens, cache_write_tokens=input_tokens)
        return max(self.of(Usage(input_tokens, output_tokens)), self.of(dear))

    @property
    def words(self) -> str:
        """The price, for a person."""
        return (
            f"${self.input:g} per million input tokens, ${self._cached:g} cached, ${self.output:g} output "
            f"({self.model}, by {self.source})"
        )

    @property
    def _cached(self) -> float:
        return self.input if self.cached_input is None else self.cached_input

    @property
    def _written(self) -> float:
        return self.input if self.cache_write is None else self.cache_write


@dataclass(frozen=True)
class Prices:
    """A table of prices; the first that fits counts."""

    entries: tuple[Price, ...] = ()

    def of(self, model: str) -> Price | None:
        """Return the price of a model; None where the table has none."""
        return next((price for price in self.entries if fnmatchcase(model, price.model)), None)

    @cached_property
    def worst(self) -> Price | None:
        """The dearest of the table, which one that is not known counts as; None where the table is empty."""
        return max(self.entries, key=lambda price: (price.output, price.input), default=None)


def read_prices() -> Prices:
    """Return the table that comes with Cellwright, behind the user's own where there is one.

    Raises:
        UsageError: The user's cannot be read, or is none.
    """
    own = _own()
    shipped = files("cellwright").joinpath("prices.toml").read_text(encoding="utf-8")
    return Prices((*(_entries(*own) if own else ()), *_entries(shipped, _SHIPPED)))


def _own() -> tuple[str, str] | None:
    """Return the user's table and its name; None where there is none."""
    named = os.environ.get("CELLWRIGHT_PRICES")
    config = os.environ.get("XDG_CONFIG_HOME")
    usual = (Path(config) if config else Path.home() / ".config") / "cellwright" / "prices.toml"
    path = Path(named) if named else usual
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES + 1)
        if len(data) > _FILE_BYTES:
            raise _wrong(str(path), f"is larger than {_FILE_BYTES} bytes")
        return data.decode(), str(path)
    except (FileNotFoundError, NotADirectoryError):
        if named:
            raise _wrong(str(path), "is not there, and CELLWRIGHT_PRICES names it") from None
        return None
    except (OSError, UnicodeError) as error:
        raise _wrong(str(path), f"cannot be read: {error}") from None


def _entries(text: str, source: str) -> tuple[Price, ...]:
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number without end, and lists in lists
        raise _wrong(source, f"is no TOML: {str(error)[:200]}") from None
    listed = table.get("price", [])
    if not isinstance(listed, list):
        raise _wrong(source, "has a `price` that is no list; an entry begins with [[price]]")
    return tuple(_entry(one, source) for one in listed)


def _entry(one: Any, source: str) -> Price:  # noqa: ANN401 - whatever TOML can hold
    if not isinstance(one, dict) or not isinstance(one.get("model"), str):
        raise _wrong(source, "has an entry without the name of a model")
    model, numbers = one["model"], {name: value for name, value in one.items() if name != "model"}
    known = {field.name for field in fields(Price)} - {"model", "source"}
    if unknown := sorted(set(numbers) - known):
        raise _wrong(source, f"has at {model!r} what no price has: {', '.join(unknown)[:200]}")
    if missing := sorted({"input", "output"} - set(numbers)):
        raise _wrong(source, f"has at {model!r} no {' and no '.join(missing)}")
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
            raise _wrong(source, f"has at {model!r}, for {name}, no number from 0 on")
    return Price(model=model, source=source, **numbers)


def _wrong(source: str, what: str) -> UsageError:
    return UsageError(
        f"The table of prices {source} {what}. Nothing was done. docs/loop.md shows what one looks like; without one of "
        "your own, Cellwright's examples count."
    )
