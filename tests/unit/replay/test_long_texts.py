"""Texts and bodies of a stranger's run are as long and as odd as they like: comparing them takes a moment, not hours."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cellwright.replay import compare
from cellwright.replay.may_differ import MayDiffer, Plain

NOON = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("one\rtwo", "two"),
        ("one\rtwo\r", "two\r"),
        ("one\r\rtwo\n", "two\n"),
        ("one\r\ntwo", "one\ntwo"),
        ("one\r", "one\r"),
        ("\r\r", "\r\r"),
        ("a\rb\nc\nd\re\n", "b\nc\ne\n"),
    ],
)
def test_of_a_line_that_was_written_over_the_last_state_counts(text: str, state: str) -> None:
    assert MayDiffer([]).plain(text, NOON).text == state


def test_of_texts_above_the_ceiling_nothing_is_taken_out() -> None:
    rules = MayDiffer.read()
    assert [one.text for one in rules.both(("in 1 ms", NOON), ("in 22 ms", NOON), 8)] == ["in <duration>"] * 2
    assert rules.both(("in 1 ms", NOON), ("in 22 ms", NOON), 7) == (Plain("in 1 ms", ()), Plain("in 22 ms", ()))


def test_a_diff_looks_at_what_is_near_the_first_line_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    unified = compare.difflib.unified_diff

    def counted(one: list[str], other: list[str], *names: str, n: int, lineterm: str) -> object:
        looked_at.extend((len(one), len(other)))
        return unified(one, other, *names, n=n, lineterm=lineterm)

    monkeypatch.setattr(compare.difflib, "unified_diff", counted)
    lines = [str(number) for number in range(100_000)]
    diff = compare._diff("\n".join(lines), "\n".join([*lines[:70_000], "other", *lines[70_001:]]))
    assert diff == (
        *("--- record", "+++ replay", "@@ -69999,5 +69999,5 @@"),
        *(" 69998", " 69999", "-70000", "+other", " 70001", " 70002"),
    )
    assert max(looked_at) == 202


def test_a_diff_of_what_only_one_has() -> None:
    assert compare._diff("a", "a\nb") == ("--- record", "+++ replay", "@@ -1 +1,2 @@", " a", "+b")
