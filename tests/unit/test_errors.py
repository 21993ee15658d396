"""The error tree is what its docstring draws, and each leaf says all that a caller needs."""

import inspect
import re
from collections.abc import Iterator

import pytest

from cellwright import errors
from cellwright.errors import CellwrightError, EnvironmentMissing, UsageError


def descendants(error: type[CellwrightError]) -> Iterator[type[CellwrightError]]:
    for child in error.__subclasses__():
        yield child
        yield from descendants(child)


ALL = list(descendants(CellwrightError))
LEAVES = [error for error in ALL if not error.__subclasses__()]


def drawn() -> list[tuple[str, str, int | None]]:
    """Return (class, the class it hangs below, the status beside it) for each line of the drawing."""
    lines, above = [], {-1: "CellwrightError"}
    for line in inspect.getdoc(errors).splitlines():
        if match := re.match(r"^    ([│ ]*)[├└]── (\w+)(?: +(\d{3}))?", line):
            depth = len(match[1]) // 4
            lines.append((match[2], above[depth - 1], int(match[3]) if match[3] else None))
            above[depth] = match[2]
    return lines


def test_drawing_shows_every_class_where_it_hangs():
    assert [(name, parent) for name, parent, _ in drawn()] == [(e.__name__, e.__base__.__name__) for e in ALL]


def test_drawn_status_is_the_status():
    by_name = {error.__name__: error for error in ALL}
    wrong = [name for name, _, status in drawn() if status is not None and by_name[name].http_status != status]
    assert wrong == []


@pytest.mark.parametrize("error", LEAVES)
def test_leaf_has_status_exit_status_and_a_sentence_of_its_own(error):
    assert 400 <= error.http_status < 600
    assert error.exit_status in {1, 2, 3}
    assert re.fullmatch(r"[A-Z].+\.", error.sentence)
    assert "sentence" in vars(error)
    assert str(error()) == error.sentence
    assert str(error("More is known.")) == "More is known."


def test_sentences_differ():
    assert len({error.sentence for error in ALL}) == len(ALL)


def test_exit_status_tells_wrong_use_from_a_missing_environment():
    assert {error.exit_status for error in descendants(UsageError)} == {2}
    assert {error.exit_status for error in descendants(EnvironmentMissing)} == {3}
