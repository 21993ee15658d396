"""YAML as values that know where they stand, so that what is wrong with one can be told with its line.

Flows in: a text. Flows out: a `Located` tree of mappings, lists and scalars. Decided here: that it is safe YAML (no types of anybody's
making), that a key stands once, and that aliases cannot make much of little: what they expand to is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import yaml
from pydantic import JsonValue

from cellwright.errors import UsageError

MAX_VALUES: Final = 20_000
"""Values that a text may come to, each as often as an alias repeats it."""
MAX_DEPTH: Final = 40
_CORE: Final = "tag:yaml.org,2002:"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C one where it is there: 15 times as fast."""


@dataclass(frozen=True)
class Located:
    """A value, and where it stands."""

    where: str
    """File and turn, as far as they are known."""
    line: int
    content: Mapping[str, Located] | tuple[Located, ...] | str
    """Of a scalar: as it is written."""
    tag: str = "str"
    """What YAML takes a scalar for: `str`, `int`, `float`, `bool`, `null`, `timestamp`."""

    def fail(self, what: str) -> NoReturn:
        """Raise UsageError for this place; `what`: sentences with what is wrong and what to write."""
        raise UsageError(f"{self.where}, line {self.line}: {what} Nothing was started.")

    def within(self, where: str) -> Located:
        """Return the same, with another place for messages."""
        match self.content:
            case str():
                content: Mapping[str, Located] | tuple[Located, ...] | str = self.content
            case tuple():
                content = tuple(part.within(where) for part in self.content)
            case _:
                content = {name: part.within(where) for name, part in self.content.items()}
        return Located(where, self.line, content, self.tag)

    def fields(self, what: str, known: Mapping[str, str]) -> Mapping[str, Located]:
        """Return a mapping's values by their names, which must be among the known ones: name -> how it is written."""
        if not isinstance(self.content, Mapping):
            self.fail(f"{what} must be a mapping, like `{next(iter(known.values()))}`.")
        for name, value in self.content.items():
            if name not in known:
                value.fail(f"{what} has no {name!r}. It may have: {', '.join(known)}.")
        return self.content

    def elements(self, what: str) -> tuple[Located, ...]:
        """Return a list's elements."""
        if not isinstance(self.content, tuple):
            self.fail(f"{what} must be a list: lines that begin with `- `.")
        return self.content

    def text(self, what: str) -> str:
        """Return a text as it is written, whatever YAML would take it for."""
        if not isinstance(self.content, str) or (self.tag == "null" and not self.content):
            self.fail(f"{what} must be a text.")
        return self.content

    def number(self, what: str) -> float:
        """Return a number that is not negative."""
        value = self.json()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            self.fail(f"{what} must be a number from 0 on, and is {self.content!r}.")
        return value

    def count(self, what: str) -> int:
        """Return a whole number that is not negative."""
        value = self.number(what)
        if not isinstance(value, int):
            self.fail(f"{what} must be a whole number, and is {self.content!r}.")
        return value

    def flag(self, what: str) -> bool:
        """Return whether something is so."""
        if self.tag != "bool":
            self.fail(f"{what} must be true or false.")
        return bool(self.json())

    def json(self) -> JsonValue:
        """Return the value as YAML means it; a date is a text."""
        match self.content:
            case tuple():
                return [part.json() for part in self.content]
            case str():
                return self._scalar(self.content)
            case _:
                return {name: part.json() for name, part in self.content.items()}

    def _scalar(self, written: str) -> JsonValue:
        make = _SCALARS.get(self.tag)
        try:
            return written if make is None else make(yaml.SafeLoader(""), yaml.ScalarNode(_CORE + self.tag, written))
        except ValueError:
            self.fail(f"{written!r} is no {self.tag}. Write it in quotes if a text is meant.")


_Make = Callable[[yaml.SafeLoader, yaml.ScalarNode], JsonValue]
_SCALARS: Final[dict[str, _Make]] = {
    "int": yaml.SafeLoader.construct_yaml_int,
    "float": yaml.SafeLoader.construct_yaml_float,
    "bool": yaml.SafeLoader.construct_yaml_bool,
    "null": lambda *_: None,
}


def read(text: str, name: str) -> Located:
    """Read a text of one document.

    Raises:
        UsageError: It is not YAML, has more than one document, a key twice, a type that is not plain data, or comes to too much.
    """
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{name}{line}: this is not YAML: {error.problem or error}. Nothing was started.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{name}: this is not YAML: {error}. Nothing was started.") from error
    if root is None:
        raise UsageError(f"{name} is empty. Nothing was started. Write `turns:` and a list below it.")
    return _located(root, name, iter(range(MAX_VALUES)), 0)


def _located(node: Any, name: str, left: Iterator[int], depth: int) -> Located:  # noqa: ANN401 - the nodes have no types
    line = node.start_mark.line + 1
    here = Located(name, line, "")
    if next(left, None) is None or depth > MAX_DEPTH:
        here.fail(
            f"The script comes to more than {MAX_VALUES} values, or {MAX_DEPTH} levels. Usually aliases (*name) repeat aliases."
        )
    tag = str(node.tag).removeprefix(_CORE)
    match node:
        case yaml.MappingNode() if tag == "map":
            found = dict[str, Located]()
            for key, value in node.value:
                word = _located(key, name, left, depth + 1)
                if not isinstance(word.content, str) or word.content in found:
                    word.fail(f"The key {str(word.content)[:80]!r} stands here twice, or is none.")
                found[word.content] = _located(value, name, left, depth + 1)
            return Located(name, line, found, tag)
        case yaml.SequenceNode() if tag == "seq":
            return Located(name, line, tuple(_located(part, name, left, depth + 1) for part in node.value), tag)
        case yaml.ScalarNode() if tag in ("str", "int", "float", "bool", "null", "timestamp"):
            return Located(name, line, str(node.value), tag)
        case _:
            return here.fail(f"The type {tag[:80]!r} is not plain data. Write it in quotes if a text is meant.")
