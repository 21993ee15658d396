"""What a run took, and the same as spans: from its record alone, at the prices of whoever looks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spending import DIME, DIMES, used
from tests.unit.replay.stopped import resumed

from cellwright.budget import Budget
from cellwright.errors import ModelError
from cellwright.ledger import Ledger, ledger_of
from cellwright.loop import Outcome, run
from cellwright.model.base import Response, Usage, usage_from
from cellwright.prices import Price, Prices
from cellwright.record import Run, read_run
from cellwright.record.journal import Journal
from cellwright.record.records import ModelRequest, ModelResponse, PersonAnswered
from cellwright.record.run_info import RunInfo
from cellwright.replay.fork import fork
from cellwright.secrets import Secrets
from cellwright.session import Session
from cellwright.spans import spans_of
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


async def driven(*turns: Response | Exception, budget: Budget | None = None) -> Outcome:
    return await run("Do it.", model=ScriptedModel(turns), budget=budget, backend=FakeBackend())


async def two_turns() -> Run:
    waited = replace(used(says("Done."), 2_000, 50, cached=1_500, reasoning=20), waited_ms=250)
    outcome = await driven(used(calls("log(1)", "1 / 0"), 1_000, 100, reasoning=40), waited)
    assert outcome.usage == Usage(3_000, 150, 1_500, 60)
    return read_run(outcome.run_dir)


async def test_each_turn_has_its_tokens_its_cells_and_its_money():
    ledger = ledger_of(await two_turns(), DIMES)
    first, second = ledger.turns
    assert [(cell.number, cell.status) for cell in first.cells] == [(1, "ok"), (2, "error")]
    assert (first.input_tokens, first.cached_tokens, first.output_tokens, first.reasoning_tokens) == (1_000, 0, 100, 40)
    assert (second.input_tokens, second.cached_tokens, second.output_tokens, second.reasoning_tokens) == (
        2_000,
        1_500,
        50,
        20,
    )
    assert (first.cost, second.cost) == (pytest.approx(0.02), pytest.approx(0.025))
    assert (second.waited_ms, second.cells, second.image_patches) == (250, (), 0)
    assert ledger.total.model_dump(exclude={"model_ms", "cell_ms", "cost"}) == {
        "waited_ms": 250,
        "person_ms": 0,
        "input_tokens": 3_000,
        "cached_tokens": 1_500,
        "cache_write_tokens": 0,
        "output_tokens": 150,
        "reasoning_tokens": 60,
        "image_patches": 0,
    }
    assert ledger.total.cell_ms == sum(cell.ms for cell in first.cells)
    assert ledger.total.cost == pytest.approx(0.045)
    assert ledger.prices == {"scripted": DIME.words}


async def test_prices_are_those_of_whoever_looks():
    told = await two_turns()
    assert ledger_of(told, Prices((Price(model="scripted", input=0, output=0),))).total.cost == 0
    unknown = ledger_of(told, Prices())
    assert (unknown.total.cost, unknown.prices) == (None, {"scripted": None})


async def test_outcome_and_ledger_come_to_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "scripted"\ninput = 10\noutput = 100\ncached_input = 1')
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(tmp_path / "prices.toml"))
    cheap = Prices((replace(DIME, cached_input=1),))
    outcome = await driven(used(calls("log(1)"), 1_000, 100), used(says("Done."), 2_000, 50, cached=1_500))
    assert outcome.cost == pytest.approx(ledger_of(read_run(outcome.run_dir), cheap).total.cost)


async def test_request_without_a_response_has_a_row_and_no_money():
    outcome = await driven(used(calls("log(1)"), 1_000, 100), ModelError("Gone.", refused_with=503))
    ledger = ledger_of(read_run(outcome.run_dir), DIMES)
    assert [(turn.turn, turn.is_answered, turn.input_tokens) for turn in ledger.turns] == [
        (1, True, 1_000),
        (2, False, 0),
    ]
    assert ledger.total.cost == pytest.approx(0.02)


async def test_server_that_counts_no_tokens_has_no_bill_unless_it_costs_nothing():
    told = read_run((await driven(used(calls("log(1)"), 1_000, 100), says("Done."))).run_dir)
    ledger = ledger_of(told, DIMES)
    assert ([turn.cost is None for turn in ledger.turns], ledger.total.cost) == ([False, True], None)
    assert ledger_of(told, Prices((Price(model="scripted", input=0, output=0),))).total.cost == 0


async def test_resumed_run_has_all_its_turns_and_what_was_executed_again():
    first = await driven(used(calls("x = 1"), 1_000, 100), ModelError("Gone."))
    model = ScriptedModel([used(calls("log(x)"), 1_200, 100), used(says("Done."), 1_300, 100)])
    assert (await resumed(first.run_dir, model, "all")).status == "done"
    ledger = ledger_of(read_run(first.run_dir), DIMES)
    assert [(turn.turn, turn.is_answered) for turn in ledger.turns] == [(1, True), (2, False), (2, True), (3, True)]
    assert [[cell.number for cell in turn.cells] for turn in ledger.turns] == [[1], [], [2], []]
    assert ledger.total.input_tokens == 3_500
    rebuilt = [record.duration_ms for record in read_run(first.run_dir).records if record.type == "cell_rebuilt"]
    assert (len(rebuilt), ledger.rebuilt_ms) == (1, sum(rebuilt))


async def test_what_a_fork_shares_was_paid_in_the_other_run():
    whole = await driven(
        used(calls("x = 1"), 1_000, 100), used(calls("x = 2"), 1_100, 100), used(says("Done."), 1_200, 50)
    )
    folder = fork(read_run(whole.run_dir), 1, secrets=Secrets({}), task="Do more.")
    await resumed(folder, ScriptedModel([used(says("Done."), 5_000, 10)]), "all")
    ledger = ledger_of(read_run(folder), DIMES)
    assert [(turn.is_shared, turn.input_tokens) for turn in ledger.turns] == [(True, 1_000), (False, 5_000)]
    assert (ledger.total.input_tokens, ledger.total.cost) == (5_000, pytest.approx(0.051))


async def test_cells_that_no_model_called_for_stand_by_themselves():
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("log(1)")
    ledger = ledger_of(read_run(session.run_dir), DIMES)
    assert (ledger.turns, [cell.number for cell in ledger.other_cells]) == ((), [1])
    assert (ledger.total.cell_ms, ledger.total.cost) == (ledger.other_cells[0].ms, 0)


def written(folder: Path, *records: Any) -> Run:
    journal = Journal.create(
        folder, RunInfo(run_id="r", cellwright="0", driver="loop", session_id="s", spec={}, model="m")
    )
    for record in records:
        journal.append(record)
    journal.leave()
    return read_run(folder)


def test_record_of_an_earlier_version_says_nothing_of_pictures_and_waiting(tmp_path: Path):
    asked = ModelRequest.model_validate({"type": "model_request", "turn": 1, "model": "m"})
    came = ModelResponse.model_validate({"type": "model_response", "turn": 1, "response": None, "duration_ms": 5})
    (turn,) = ledger_of(written(tmp_path / "run", asked, came), Prices()).turns
    assert (turn.image_patches, turn.waited_ms, turn.model_ms, turn.input_tokens) == (None, 0, 5, 0)


def test_waiting_for_a_person_is_the_turns_in_which_it_was(tmp_path: Path):
    asked = [ModelRequest(turn=number, model="m", image_patches=number) for number in (1, 2)]
    came = [ModelResponse(turn=number, duration_ms=5) for number in (1, 2)]
    persons = [
        PersonAnswered(at=f"2026-01-01T00:00:{at}.000Z", question="Which one?", answer="This.", waited_ms=waited_ms)
        for at, waited_ms in (("10", 7_000), ("12", 5_000), ("12", 1_000), ("30", 4_000))
    ]
    ledger = ledger_of(written(tmp_path / "run", asked[0], came[0], *persons, asked[1], came[1]), Prices())
    assert [turn.person_ms for turn in ledger.turns] == [7_000 + 2_000 + 4_000, 0], "two at the same time count once"
    assert (ledger.total.person_ms, ledger.total.image_patches) == (13_000, 3)


def test_waits_whose_moments_are_none_are_all_counted(tmp_path: Path):
    asked, came = ModelRequest(turn=1, model="m"), ModelResponse(turn=1, duration_ms=5)
    strange = PersonAnswered(at="then", question="Which one?", answer="This.", waited_ms=7_000)
    assert ledger_of(written(tmp_path / "run", asked, came, strange, strange), Prices()).total.person_ms == 14_000


@pytest.mark.parametrize(
    "strange",
    [
        None,
        [],
        {"usage": []},
        {"usage": {"input_tokens": "many", "input_tokens_details": 3}},
        {"usage": {"input_tokens": -5, "output_tokens": True, "output_tokens_details": {"reasoning_tokens": 1.5}}},
        {"usage": {"input_tokens": 10**30}},
    ],
)
def test_what_is_no_count_of_tokens_is_none(strange: Any):
    assert usage_from(strange) == Usage()


# spans


def spans(run: Run) -> list[dict[str, Any]]:
    body: Any = spans_of(run, DIMES)
    (resource,) = body["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    return list(scope["spans"])


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


async def test_run_turns_and_cells_are_spans_one_within_the_other():
    run = await two_turns()
    root, *others = spans(run)
    assert "parentSpanId" not in root
    names = [(span["name"], span["kind"]) for span in (root, *others)]
    assert names == [
        ("invoke_agent cellwright", 1),
        ("chat scripted", 3),
        ("execute_tool exec_py", 1),
        ("execute_tool exec_py", 1),
        ("chat scripted", 3),
    ]
    first, one, two, second = others
    assert [span["parentSpanId"] for span in others] == [
        root["spanId"],
        first["spanId"],
        first["spanId"],
        root["spanId"],
    ]
    assert len({span["spanId"] for span in (root, *others)}) == 5
    assert {span["traceId"] for span in (root, *others)} == {root["traceId"]}
    assert (len(root["traceId"]), len(root["spanId"])) == (32, 16)
    for inner, outer in ((first, root), (second, root), (one, first), (two, first)):
        assert int(outer["startTimeUnixNano"]) <= int(inner["startTimeUnixNano"])
        assert int(inner["endTimeUnixNano"]) <= int(outer["endTimeUnixNano"])


async def test_spans_have_the_names_of_the_convention_and_no_content():
    told = await two_turns()
    root, first, one, two, _ = spans(told)
    assert attributes(first) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.finish_reasons": {"values": [{"stringValue": "completed"}]},
        "gen_ai.usage.input_tokens": "1000",
        "gen_ai.usage.output_tokens": "100",
        "gen_ai.usage.cache_read.input_tokens": "0",
        "gen_ai.usage.cache_creation.input_tokens": "0",
        "gen_ai.usage.reasoning.output_tokens": "40",
        "cellwright.turn": "1",
        "cellwright.model_ms": attributes(first)["cellwright.model_ms"],
        "cellwright.waited_ms": "0",
        "cellwright.person_ms": "0",
        "cellwright.image_patches": "0",
        "cellwright.cost_usd": pytest.approx(0.02),
    }
    assert attributes(one)["gen_ai.tool.name"] == "exec_py"
    assert (attributes(one).get("error.type"), attributes(two)["error.type"]) == (None, "error")
    assert (one["status"], two["status"]) == ({}, {"code": 2})
    assert attributes(root)["gen_ai.conversation.id"] == told.info.run_id
    whole = json.dumps(spans_of(told, DIMES))
    assert not [word for word in ("Do it.", "log(1)", "ZeroDivisionError", "Done.") if word in whole]


async def test_same_run_is_the_same_trace():
    told = await two_turns()
    assert spans_of(told, DIMES) == spans_of(read_run(told.folder), DIMES)
    other = await two_turns()
    assert spans(told)[0]["traceId"] != spans(other)[0]["traceId"]


async def test_request_without_a_response_and_run_that_failed_are_errors():
    outcome = await driven(ModelError("Gone.", refused_with=503))
    root, turn = spans(read_run(outcome.run_dir))
    assert (attributes(root)["error.type"], attributes(turn)["error.type"]) == ("failed", "503")
    assert (root["status"], turn["status"]) == ({"code": 2}, {"code": 2})


async def test_run_that_no_model_drove_is_a_span_with_its_cells():
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("log(1)")
        session.conclude("done")
    root, one = spans(read_run(session.run_dir))
    assert (root["name"], one["name"], one["parentSpanId"]) == ("cellwright", "execute_tool exec_py", root["spanId"])
    assert "gen_ai.operation.name" not in attributes(root)


def test_moment_that_is_none_does_not_stop_it(tmp_path: Path):
    asked = ModelRequest(turn=1, model="m", at="yesterday")
    came = ModelResponse(turn=1, duration_ms=5, at="2026-11-30T00:00:00")
    (_, turn) = spans(written(tmp_path / "run", asked, came))
    assert (turn["startTimeUnixNano"], turn["endTimeUnixNano"]) == ("0", "0")


def test_ledger_is_json_that_reads_back(tmp_path: Path):
    ledger = ledger_of(written(tmp_path / "run"), Prices())
    assert Ledger.model_validate_json(ledger.model_dump_json()) == ledger
