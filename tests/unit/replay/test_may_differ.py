"""What is taken out of texts before they are compared: every line of `texts.jsonl`, for a cell of noon, 1 March 2026, UTC."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cellwright.errors import UsageError
from cellwright.replay.may_differ import MayDiffer, Replaced

NOON = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
ROWS = [json.loads(line) for line in Path(__file__).with_name("texts.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["title"]) for row in ROWS])
def test_text_without_what_may_differ(row: dict[str, str]) -> None:
    assert MayDiffer.read().plain(row["text"], NOON).text == row["plain"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["title"]) for row in ROWS])
def test_taking_out_twice_takes_out_no_more(row: dict[str, str]) -> None:
    assert MayDiffer.read().plain(row["plain"], NOON).text == row["plain"]


def test_what_was_taken_out_is_told() -> None:
    plain = MayDiffer.read().plain("pid 7 took 3 ms", NOON)
    assert plain.replaced == (Replaced("duration", "3 ms"), Replaced("process", "7"))


def test_a_file_of_the_users_adds_rules_that_come_first(tmp_path: Path) -> None:
    added = tmp_path / "mine.toml"
    added.write_text("[[rule]]\nname = 'order'\npattern = 'order (?P<value>[0-9]+)'\n", encoding="utf-8")
    assert MayDiffer.read(added).plain("order 1772366407", NOON).text == "order <order>"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]]\nname = 'a'\npattern = '('\n", "rule.0.pattern: "),
        ("[[rule]]\nname = 'A <b>'\npattern = 'x'\n", "rule.0.name: "),
        ("[[rule]]\nname = 'a'\n", "rule.0.pattern: "),
        ("[[rules]]\nname = 'a'\n", "rules: "),
        ("not toml", "Expected"),
    ],
)
def test_a_file_without_rules_is_refused(tmp_path: Path, text: str, says: str) -> None:
    added = tmp_path / "mine.toml"
    added.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"holds no rules of what may differ: {says}"):
        MayDiffer.read(added)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        MayDiffer.read(tmp_path / "nothing.toml")
