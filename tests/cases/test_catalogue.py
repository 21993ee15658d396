"""The catalogue is whole: every report that was gathered is a case, and a case that is held elsewhere names a test that is there."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from pydantic import ValidationError
from tests.cases.catalogue import HERE, Case, defines, named_tests, read_cases

CASES = read_cases()
KINDS = {
    "kernel": "K",
    "output": "O",
    "gui": "G",
    "browser": "B",
    "javascript": "J",
    "loop": "A",
    "isolation": "I",
    "security": "S",
    "replay": "R",
    "concurrency": "C",
}
WAITING = {
    "C04": "the warm pool: every session starts its own sandbox yet",
    "G24": "screen recording: there is none yet",
    "S09": "the live view: no desktop is served yet",
}


def test_every_report_is_a_case() -> None:
    gathered = re.findall(r"\b[A-Z]\d\d\b", (HERE / "catalogue.txt").read_text())
    assert len(gathered) == 127
    assert sorted(set(gathered) - {case.id for case in CASES}) == []


def test_every_id_is_there_once_and_in_the_file_of_its_kind() -> None:
    assert [case_id for case_id, count in Counter(case.id for case in CASES).items() if count > 1] == []
    for path in HERE.glob("*.jsonl"):
        ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
        assert {case_id[0] for case_id in ids} == {KINDS[path.stem]}


def test_tests_that_hold_a_case_are_there() -> None:
    missing = [
        f"{case.id}: {path}::{name}" for case in CASES for path, name in named_tests(case) if not defines(path, name)
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"cells": []}, "must say in one way"),
        ({"cells": [{"code": "1"}], "covered_by": ["a::b"]}, "must say in one way"),
        ({"cells": [{"code": "1", "sayz": []}]}, "Extra inputs"),
        ({"cells": [{"code": "1"}], "gone_after_close": ["sleep 1"]}, "needs a fresh one"),
        ({"cells": [{"code": "1", "in_second_session": True}]}, "needs a fresh one"),
    ],
)
def test_a_record_that_says_it_wrongly_is_refused(record: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Case.model_validate({"id": "K99", "title": "A title."} | record)


def test_what_waits_is_known_and_for_what() -> None:
    """Whoever builds one of these parts finds its cases here, and takes them out of this list."""
    assert {case.id: case.waits_for for case in CASES if case.waits_for is not None} == WAITING
