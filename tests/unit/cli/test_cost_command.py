"""`show --cost` and `--spans`, and the options that bound what a run spends, as a person types them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.spending import used
from typer.testing import CliRunner

from cellwright.cli import main
from cellwright.cli.budget_options import BudgetOptions, patience_from
from cellwright.errors import UsageError
from cellwright.loop import run
from cellwright.stuck import Patience
from cellwright.testing.fake_sandbox import FakeBackend
from cellwright.testing.model import ScriptedModel, calls, says


def status_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return caught.value.code


@pytest.fixture
def run_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "scripted"\ninput = 10\noutput = 100\ncached_input = 1')
    monkeypatch.setenv("CELLWRIGHT_PRICES", str(tmp_path / "prices.toml"))
    turns = [used(calls("log(1)", "1 / 0"), 1_000, 100, reasoning=40), used(says("Done."), 2_000, 50, cached=1_500)]
    return asyncio.run(run("Do it.", model=ScriptedModel(turns), backend=FakeBackend())).run_id


def shown(*words: str) -> str:
    return CliRunner().invoke(main._app(), ["show", *words], catch_exceptions=False).stdout


def test_cost_is_a_table_of_turns_and_cells_and_says_by_which_price(run_id: str, tmp_path: Path):
    lines = shown(run_id, "--cost").splitlines()
    columns = [line.split() for line in lines]
    assert " ".join(columns[0]) == "model s waited s person s cells s in cached out reasoning patches cost"
    assert columns[1][:2] + columns[1][6:] == ["turn", "1", "1,000", "0", "100", "40", "0", "$0.0200"]
    assert columns[2][:2] == ["cell", "1"]
    assert columns[3][:3] == ["cell", "2,", "error"]
    assert columns[4][:2] + columns[4][6:] == ["turn", "2", "2,000", "1,500", "50", "0", "0", "$0.0115"]
    assert columns[5][:1] + columns[5][5:] == ["total", "3,000", "1,500", "150", "40", "0", "$0.0315"]
    assert lines[6] == (
        "scripted: $10 per million input tokens, $1 cached, $100 output (scripted, by "
        + str(tmp_path / "prices.toml")
        + ")."
    )


def test_price_that_is_not_known_is_said_and_nothing_made_up(run_id: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CELLWRIGHT_PRICES", "/dev/null")
    lines = shown(run_id, "--cost").splitlines()
    assert [line.split()[-1] for line in lines if line.startswith(("turn", "total"))] == ["?", "?", "?"]
    assert "scripted: its price is not known. An entry in a table of your own gives one: docs/loop.md." in lines


@pytest.mark.usefixtures("run_id")
def test_server_that_counts_nothing_is_told_of():
    model = ScriptedModel([used(calls("log(1)"), 1_000, 100), says("Done.")])
    silent = asyncio.run(run("Do it.", model=model, backend=FakeBackend()))
    lines = shown(silent.run_id, "--cost").splitlines()
    assert [line.split()[-1] for line in lines if line.startswith(("turn", "total"))] == ["$0.0200", "?", "?"]
    assert lines[-1] == "Of 1 turn the server did not say how many tokens it had, so what it cost is not known."


def test_cost_and_spans_are_json_for_a_program(run_id: str):
    ledger = json.loads(shown(run_id, "--cost", "--json"))
    assert (ledger["run_id"], len(ledger["turns"]), ledger["total"]["input_tokens"]) == (run_id, 2, 3_000)
    assert ledger["total"]["cost"] == pytest.approx(0.0315)
    spans = json.loads(shown(run_id, "--spans"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans].count("chat scripted") == 2


def test_only_one_view_is_shown(run_id: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert status_of(monkeypatch, "show", run_id, "--cost", "--spans") == 2
    assert "Give one of them." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "patience"),
    [
        ("3", Patience(3, 5, 8)),
        ("10", Patience(10, 12, 15)),
        ("2,4,6", Patience(2, 4, 6)),
        (" 2, 4 ,6", Patience(2, 4, 6)),
    ],
)
def test_patience_is_one_number_or_three(words: str, patience: Patience):
    assert patience_from(words) == patience


@pytest.mark.parametrize("words", ["", "x", "3,5", "3,5,8,9", "-3", "3.5", "٣", "1", "5,3,8", "9" * 5000])
def test_other_patience_is_refused(words: str):
    with pytest.raises(UsageError):
        patience_from(words)


def test_options_are_the_budget():
    options = BudgetOptions(max_turns=7, max_tokens=100, max_cost=2.5, patience="4")
    assert (options.budget.turns, options.budget.tokens, options.budget.money) == (7, 100, 2.5)
    assert options.chosen_patience == Patience(4, 6, 9)
    assert BudgetOptions().chosen_patience == Patience()


@pytest.mark.parametrize("command", ["run", "resume", "fork"])
def test_help_says_what_is_meant_and_how_patient_it_is(command: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "400")
    said = " ".join(CliRunner().invoke(main._app(), [command, "--help"]).stdout.split())
    for words in (
        "--max-turns",
        "--max-tokens",
        "--max-cost",
        "when 75% is spent",
        "[default: 3,5,8]",
        "ends as `stuck`",
    ):
        assert words in said


def test_wrong_budget_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clean_environment: Path
):
    for words in (("--max-cost", "0"), ("--patience", "8,5,3")):
        assert status_of(monkeypatch, "run", "Do it.", "--base-url", "http://127.0.0.1:1/v1", *words) == 2
        assert "Nothing was started." in capsys.readouterr().err
    assert not clean_environment.exists()
