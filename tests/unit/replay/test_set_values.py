"""What another value of a parameter is expected to change in a text, and what it is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from tests.unit.replay.conftest import add_cell

from cellwright.errors import UsageError
from cellwright.record import Journal, Run, open_run, read_run
from cellwright.replay.may_differ import MayDiffer
from cellwright.replay.replay import Again, spec_again
from cellwright.replay.set_values import SetValues, first_cell_that_may_change, set_values, values_of
from cellwright.sandbox.base import Spec

NOON = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
ROME = (("Rome", "Oslo"),)


def is_same(recorded: str, said: str, *pairs: tuple[str, str]) -> bool:
    one, two = MayDiffer.read().with_values(SetValues(pairs)).both((recorded, NOON), (said, NOON), 10_000)
    return one.text == two.text


@pytest.mark.parametrize(
    ("recorded", "said", "pairs"),
    [
        ("hello Rome", "hello Oslo", ROME),
        ("Rome, Rome_2.csv, 'Rome'", "Oslo, Oslo_2.csv, 'Oslo'", ROME),
        ("title: Rome is old\nRome", "title: Rome is old\nOslo", ROME),  # a line that it did not come into
        ("Rome\nRome", "Rome\nOslo", ROME),
        ("Rome\nOslo\nRome", "Oslo\nOslo\nRome", ROME),
        ("hello Rome", "hello Rome", ROME),
        ("3 rows of 13, 3.5 EUR, 1,300, x3", "4 rows of 13, 3.5 EUR, 1,300, x4", (("3", "4"),)),
        ("a b", "b a", (("a", "b"), ("b", "a"))),  # each once
        ("New York, York", "Rome, Oslo", (("York", "Oslo"), ("New York", "Rome"))),
        ("for 2026-03-01", "for 2020-01-01", (("2026-03-01", "2020-01-01"),)),  # else a moment near the cell's own
        ("took 3 ms in Rome", "took 5 ms in Oslo", ROME),
        ("Rome\nRome", "Oslo\nParis", (("Rome", "Oslo"), ("Rome", "Paris"))),  # two that were the same
        ("(a+b)*", r"\1", (("(a+b)*", r"\1"),)),
        ("Zürich!", "Bern!", (("Zürich", "Bern"),)),
        ("say ''", "say ''", (("", "x"),)),
    ],
)
def test_what_a_value_changes_is_the_same(recorded: str, said: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert is_same(recorded, said, *pairs)


@pytest.mark.parametrize(
    ("recorded", "said", "pairs"),
    [
        ("hello Rome", "bye Oslo", ROME),
        ("Rome and Rome", "Rome and Oslo", ROME),  # one line is changed everywhere, or nowhere
        ("Romeo", "Osloo", ROME),
        ("aRome", "aOslo", ROME),
        ("Oslo", "Rome", ROME),  # not the other way round
        ("13 rows", "14 rows", (("3", "4"),)),
        ("3.5 EUR", "4.5 EUR", (("3", "4"),)),
        ("total 6", "total 8", (("3", "4"),)),
        ("say ''", "say 'x'", (("", "x"),)),
        ("Rome\nRome", "Oslo", ROME),
        ("Rome\nx", "x\nOslo", ROME),
        ("Rome and Rome", "Oslo and Paris", (("Rome", "Oslo"), ("Rome", "Paris"))),
    ],
)
def test_what_it_does_not_change_differs(recorded: str, said: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert not is_same(recorded, said, *pairs)


def test_texts_and_values_that_would_take_long_or_grow_without_end_stay_as_they_are() -> None:
    dots = "." * 1024**2
    almost = f"{dots}{'.' * 4000}!"
    assert SetValues((("." * 4000 + "!", "x"), ("-", "y"))).in_texts(almost) == (almost,)
    assert SetValues(((".", "x" * 2000),)).in_texts(dots) == (dots,)
    assert SetValues(((".", "xy"),)).in_texts(dots[:100]) == ("xy" * 100,)


def test_a_value_that_was_set_to_what_it_was_changes_nothing() -> None:
    run = made_from(Spec(params={"city": "Rome"}))
    values = set_values(run, {"city": "Rome"})
    assert not values
    assert not is_same("Rome", "Oslo", *values.pairs)


def test_replay_has_the_runs_values_but_for_those_that_are_set() -> None:
    run = made_from(Spec(params={"city": "Rome", "n": "3"}))
    assert spec_again(run, Again()).params == {"city": "Rome", "n": "3"}
    assert spec_again(run, Again(params={"n": "4"})).params == {"city": "Rome", "n": "4"}
    with pytest.raises(UsageError, match=r"--set: .*more than 16384 bytes.* Nothing ran"):
        spec_again(run, Again(params={"n": "4" * 20_000}))


def test_parameters_are_bounded_as_they_reach_the_sandbox() -> None:
    assert len(Spec(params={"a": "ü" * 8000}).params["a"]) == 8000
    with pytest.raises(ValidationError, match="more than 16384 bytes as JSON"):
        Spec(params={"a": "\x01" * 3000})


def test_a_run_of_before_there_were_parameters_is_read_and_has_none() -> None:
    run = made_from(Spec(), without="params")
    assert "params" not in run.info.spec
    assert values_of(run) == {}
    assert spec_again(run, Again()) == Spec()
    with pytest.raises(UsageError, match=r"--set city: the run has no such parameter.* --param NAME=VALUE"):
        set_values(run, {"city": "Rome"})


def test_pictures_count_up_to_the_first_cell_that_names_params(made: Callable[..., Run]) -> None:
    def fill(journal: Journal) -> None:
        for code in ("hyperparams = 1", "1", "log(params['city'])", "2"):
            add_cell(journal, code)

    assert first_cell_that_may_change(made(fill)) == 3


def made_from(spec: Spec, *, without: str | None = None) -> Run:
    with open_run(session_id="s", driver="library", spec=spec) as journal:
        pass
    run = read_run(journal.folder)
    if without is not None:
        said = {name: value for name, value in run.info.spec.items() if name != without}
        (run.folder / "run.json").write_text(run.info.model_copy(update={"spec": said}).model_dump_json())
    return read_run(run.folder)
