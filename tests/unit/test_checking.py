"""A run is done when its result has the shape that was asked for and what verifies it succeeds; else the model is told, three times."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from tests.waiting import GUARD_S, until

from cellwright.checking import Checking
from cellwright.conversation import conversation_of
from cellwright.errors import ModelError, UsageError
from cellwright.loop import Outcome, run
from cellwright.outside import run_command
from cellwright.record import read_run
from cellwright.record.records import Note, Record, TermsSet
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given
from cellwright.resuming import Driving, resume_by_model
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.steering import Steering
from cellwright.terms import Checks, TermsGiven, terms_of
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says
from cellwright.validity import check_schema, not_valid, read_schema
from cellwright_kernel.wire import Cell, CellStatus, Language, Text

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
    "required": ["total"],
    "$defs": {"row": {"type": "string"}},
}


async def driven(*turns: Any, checks: Checks, **more: Any) -> tuple[Outcome, ScriptedModel]:
    model = ScriptedModel(turns)
    return await run("Add them up.", model=model, backend=FakeBackend(), checks=checks, **more), model


def told(model: ScriptedModel) -> list[str]:
    """Return what the model was told besides its task, by the last request."""
    said = [item for item in model.requests[-1].history if item.get("role") == "user"]
    return [item["content"][0]["text"] for item in said[1:]]  # type: ignore[index, call-overload, misc]


def notes(outcome: Outcome, topic: str) -> list[str]:
    return [one.text for one in read_run(outcome.run_dir).records if isinstance(one, Note) and one.topic == topic]


async def test_a_result_of_the_right_shape_is_the_outcomes_and_stands_in_the_record() -> None:
    outcome, model = await driven(calls("log(42)"), says('{"total": 42}'), checks=Checks(result_schema=SCHEMA))
    assert (outcome.status, outcome.result, outcome.summary) == ("done", {"total": 42}, '{"total": 42}')
    assert [json.loads(text) for text in notes(outcome, "result")] == [{"total": 42}]
    assert '"required": ["total"]' in model.requests[0].instructions


RESULTS: dict[str, Any] = {
    '{"total": 1}': {"total": 1},
    ' \n{"total": 1}\n': {"total": 1},
    'This is it:\n```json\n{"total": 1}\n```\nDone.': {"total": 1},
    '```\n{"total": 0}\n```\nNo:\n```json\n{"total": 1}\n```': {"total": 1},
    '{"total": 1, "rows": ["```\\n2\\n```"]}': {"total": 1, "rows": ["```\n2\n```"]},
}


@pytest.mark.parametrize("words", RESULTS)
async def test_the_result_is_the_whole_answer_or_stands_in_its_last_fence(words: str) -> None:
    outcome, _ = await driven(says(words), checks=Checks(result_schema=SCHEMA))
    assert (outcome.status, outcome.result) == ("done", RESULTS[words])


WRONG = {
    "It is 42.": "is not the JSON that was asked for: Expecting value",
    '{"total": NaN}': "NaN is no number of JSON",
    '{"total": 1e999}': "1e999 is no number of JSON",
    "[" * 100_000: "nested too deep",
    '{"total": "42"}': "at $.total: '42' is not of type 'integer'.",
    "{}": "at $: 'total' is a required property.",
    '{"total": 1, "rows": [1]}': "at $.rows[0]: 1 is not of type 'string'.",
}


@pytest.mark.parametrize("words", WRONG)
async def test_the_model_is_told_what_is_wrong_and_may_answer_again(words: str) -> None:
    outcome, model = await driven(says(words), says('{"total": 42}'), checks=Checks(result_schema=SCHEMA))
    assert (outcome.status, outcome.result) == ("done", {"total": 42})
    (complaint,) = told(model)
    assert WRONG[words] in complaint
    assert notes(outcome, "sent_back") == [complaint]


async def test_after_three_times_the_run_has_failed_with_a_sentence() -> None:
    outcome, model = await driven(*(says("It is 42.") for _ in range(9)), checks=Checks(result_schema=SCHEMA))
    assert (outcome.status, outcome.result, outcome.summary, outcome.turns) == ("failed", None, "It is 42.", 4)
    assert str(outcome.reason).startswith(
        "It was told 3 times what does not hold, and the last time was: Your final answer"
    )
    assert len(told(model)) == 3


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "objekt"}, "This is no JSON schema"),
        ([], "is an object"),
        ({"$ref": "http://a.test/schema.json"}, "nothing is fetched"),
        ({"properties": {"a": {"items": [{"$ref": "other.json"}]}}}, "no JSON schema|nothing is fetched"),
    ],
)
async def test_a_schema_that_is_none_is_refused_before_anything_starts(schema: Any, why: str, tmp_path: Path) -> None:
    backend = FakeBackend()
    with pytest.raises(UsageError, match=why):
        await run("Do it.", model=ScriptedModel([]), backend=backend, checks=Checks(result_schema=schema))
    assert backend.made == []
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    with pytest.raises(UsageError, match=why):
        read_schema(tmp_path / "schema.json")


def test_a_schema_that_leads_nowhere_is_a_fault_and_many_faults_are_few_sentences() -> None:
    check_schema({"$ref": "#/$defs/missing"})
    assert "could not be followed" in str(not_valid(1, {"$ref": "#/$defs/missing"}))
    assert str(not_valid([1] * 9, {"items": {"type": "string"}})).endswith("4 more.")


ODD: dict[str, tuple[dict[str, Any], JsonValue]] = {
    "a number beyond a float": ({"multipleOf": 0.1}, 10**400),
    "a reference to what is no schema": ({"$ref": "#/const", "const": 5}, 5),
    "a reference to what is no place": ({"$ref": "#/allOf/x", "allOf": [{}]}, 5),
    "a reference to itself": ({"$ref": "#"}, 5),
}


@pytest.mark.parametrize("what", ODD)
async def test_a_schema_that_cannot_be_followed_with_an_answer_is_a_fault_of_the_answer(what: str) -> None:
    schema, value = ODD[what]
    check_schema(schema)
    outcome, model = await driven(says(json.dumps(value)), ModelError("Gone."), checks=Checks(result_schema=schema))
    assert (outcome.status, outcome.reason) == ("failed", "Gone.")
    assert "the schema could not be followed" in told(model)[0]


def test_a_schema_that_is_nested_too_deep_is_none() -> None:
    schema: JsonValue = {}
    for _ in range(500):
        schema = {"properties": {"a": schema}}
    with pytest.raises(UsageError, match="nested too deep"):
        check_schema(schema)


@pytest.mark.parametrize("words", ["9" * 5000 + ":1", "1:" + "9" * 5000], ids=["most", "kept"])
def test_a_number_of_pictures_that_is_beyond_any_is_none(words: str) -> None:
    with pytest.raises(UsageError, match="is no number of pictures"):
        terms_of(TermsSet(pictures=words))


async def test_a_command_that_succeeds_lets_the_run_end_and_finds_the_answer_and_the_folder() -> None:
    checks = Checks(verify="test -f journal.jsonl && grep -q 'It is 42'")
    outcome, _ = await driven(says("It is 42."), checks=checks)
    assert outcome.status == "done"


async def test_what_a_command_prints_goes_back_to_the_model() -> None:
    checks = Checks(verify='read -r words; echo "$words" >&2; test "$words" = \'It is 43.\'')
    outcome, model = await driven(says("It is 42."), calls("log(1)"), says("It is 43."), checks=checks)
    assert outcome.status == "done"
    (complaint,) = told(model)
    assert "the user's check of it ended with status 1. It printed:\nIt is 42." in complaint


async def test_of_much_output_the_model_is_shown_beginning_and_end() -> None:
    checks = Checks(verify="echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end; exit 3")
    _, model = await driven(says("Done."), says("Done."), says("Done."), says("Done."), checks=checks)
    complaint = told(model)[0]
    assert "ended with status 3" in complaint
    assert 4_000 < len(complaint) < 4_400
    assert "begin" in complaint
    assert "end\n" in complaint
    assert "characters are missing here" in complaint


async def test_the_value_of_a_secret_that_a_command_prints_is_not_shown_to_the_model() -> None:
    spec = Spec(secrets=(SecretSpec(name="KEY"),))
    checks = Checks(verify="echo swordfish-7; exit 1")
    outcome, model = await driven(
        *(says("Done.") for _ in range(4)), checks=checks, spec=spec, secrets={"KEY": "swordfish-7"}
    )
    assert outcome.status == "failed"
    assert "swordfish" not in str([request.history for request in model.requests])
    assert "holds the value of a secret, and is left out" in told(model)[0]


@pytest.mark.slow
async def test_a_command_ends_at_its_deadline_with_all_that_it_started(tmp_path: Path) -> None:
    ended = await asyncio.wait_for(
        run_command("sleep 3600 & echo $! > pid; echo said; wait", tmp_path, "", deadline_s=0.5), GUARD_S
    )
    assert (ended.status, ended.text) == (None, "said\n")
    await until(lambda: not _lives(int((tmp_path / "pid").read_text())))


async def test_what_a_command_leaves_behind_does_not_keep_it_waiting(tmp_path: Path) -> None:
    ended = await asyncio.wait_for(run_command("sleep 3600 & echo $!", tmp_path, "", deadline_s=GUARD_S), GUARD_S)
    assert ended.status == 0
    await until(lambda: not _lives(int(ended.text)))  # it was killed; the Linux kernel ends it in its own time


async def test_what_made_itself_a_session_of_its_own_does_not_keep_it_waiting(tmp_path: Path) -> None:
    command = "setsid sh -c 'echo $$ > pid; exec sleep 99' & until [ -s pid ]; do sleep 0.01; done; echo said"
    async with asyncio.timeout(GUARD_S):
        ended = await run_command(command, tmp_path, "", deadline_s=2 * GUARD_S)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (ended.status, ended.text) == (0, "said\n")


async def test_a_command_that_does_not_read_what_it_is_given_ends_all_the_same(tmp_path: Path) -> None:
    ended = await run_command("exec <&-; echo ok", tmp_path, "x" * 1_000_000, deadline_s=GUARD_S)
    assert (ended.status, ended.text) == (0, "ok\n")


def _lives(pid: int) -> bool:
    """Whether a process runs; what nobody has waited for yet does not."""
    try:
        os.kill(pid, signal.SIG_DFL)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_a_stop_ends_a_command_that_checks_with_all_that_it_started(tmp_path: Path) -> None:
    steering, pid = Steering(), tmp_path / "pid"

    async def stops() -> None:
        await until(lambda: pid.exists() and pid.read_text())
        steering.stop()

    checks = Checks(verify=f"sleep 3600 & echo $! > {pid}; wait")
    async with asyncio.timeout(GUARD_S), asyncio.TaskGroup() as group:
        group.create_task(stops())
        outcome, _ = await driven(says("Done."), checks=checks, steering=steering)
    assert (outcome.status, outcome.summary) == ("cancelled", None)
    await until(lambda: not _lives(int(pid.read_text())))


async def test_a_cell_that_fails_in_the_session_goes_back_to_the_model() -> None:
    checks = Checks(verify_cell="assert total == 42, total")
    outcome, model = await driven(calls("total = 41"), says("Done."), calls("total = 42"), says("Done."), checks=checks)
    assert (outcome.status, outcome.cells) == ("done", 2)
    (complaint,) = told(model)
    assert "cell 2 in this session, ended error. It says:\nAssertionError: 41" in complaint


class Silent:
    """A journal that keeps nothing and knows no secret."""

    def append(self, record: Record) -> None: ...

    def would_hide(self, text: str) -> bool:  # noqa: ARG002 - it knows none
        return False


def cell(*texts: tuple[str, str], status: CellStatus = "ok") -> Cell:
    outputs = tuple(Text(text=text, source=source) for text, source in texts)  # type: ignore[arg-type]
    return Cell(
        number=3, language="python", code="x", started_at="2026-01-01T00:00:00.000Z", status=status, outputs=outputs
    )


@pytest.mark.parametrize(
    ("ended", "holds"),
    [
        (cell(("True", "result")), True),
        (cell(("False", "result")), False),
        (cell(("false", "result")), False),
        (cell(("False", "stdout")), True),
        (cell(("False", "log"), ("None", "result")), True),
        (cell(), True),
        (cell(("It took too long.", "notice"), status="timeout"), False),
    ],
)
async def test_a_cell_holds_when_it_ends_well_and_its_value_is_not_false(ended: Cell, holds: bool) -> None:
    async def execute(code: str, language: Language) -> Cell:
        assert (code, language) == ("check()", "javascript")
        return ended

    checks = Checks(verify_cell="check()", verify_language="javascript")
    checking = Checking(checks, folder=Path(), execute=execute, steering=Steering(), journal=Silent())
    assert (await checking.complaint("Done.") is None) is holds


async def test_the_cheapest_check_comes_first_and_the_others_only_then(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    checks = Checks(
        result_schema={"type": "integer"},
        verify=f"echo command >> {marks}",
        verify_cell=f"with open({str(marks)!r}, 'a') as file: file.write('cell\\n')",
    )
    outcome, _ = await driven(says("x"), says("1"), checks=checks)
    assert (outcome.status, outcome.result, marks.read_text()) == ("done", 1, "command\ncell\n")


async def test_a_run_that_was_stopped_while_it_was_verified_is_verified_again_on_the_same_terms(tmp_path: Path) -> None:
    checks = Checks(result_schema=SCHEMA, verify=f"touch {tmp_path / 'executed'}", verify_cell="assert total == 42")
    turns = [calls("total = 41"), says("No JSON."), says('{"total": 41}')]
    failed, _ = await driven(*turns, checks=checks)
    assert failed.status == "failed", "the script was over"
    (tmp_path / "executed").unlink()
    before = conversation_of(read_run(failed.run_dir))
    assert (before.last_words, before.sent_back) == (None, 0)
    model = ScriptedModel([calls("total = 42"), says('{"total": 42}')])
    outcome = await resumed(failed, model)
    assert (outcome.status, outcome.result) == ("done", {"total": 42})
    assert not (tmp_path / "executed").exists(), "what a record names is never executed outside"
    assert [words[:30] for words in told(model)[:2]] == [
        "Your final answer is not the J",
        "You said that the task is done",
    ]


async def test_a_final_answer_that_was_not_judged_yet_is_judged_when_the_run_goes_on() -> None:
    failed, _ = await driven(*(says("No JSON.") for _ in range(4)), checks=Checks(result_schema=SCHEMA))
    assert failed.status == "failed"
    assert conversation_of(read_run(failed.run_dir)).last_words == "No JSON."
    model = ScriptedModel([says('{"total": 1}')])
    outcome = await resumed(failed, model, terms=TermsGiven(result_schema={"required": ["total"]}))
    assert (outcome.status, outcome.result) == ("done", {"total": 1})
    assert len(told(model)) == 5, "three times before, what became of the run, and this time"


async def resumed(outcome: Outcome, model: ScriptedModel, **more: Any) -> Outcome:
    plan = plan_for(read_run(outcome.run_dir), "safe")
    return await resume_by_model(outcome.run_dir, plan, Given(), Driving(model=model, **more), backend=FakeBackend())


async def test_a_result_of_null_is_recorded_as_one() -> None:
    outcome, _ = await driven(says("null"), checks=Checks(result_schema={"type": "null"}))
    assert (outcome.status, outcome.result, notes(outcome, "result")) == ("done", None, ["null"])
