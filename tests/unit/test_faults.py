"""The registry of faults, how one is asked for by name, and how fast a server may be asked."""

from __future__ import annotations

import json

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from cellwright.cli import emulate
from cellwright.emulator.faults import FAULTS, OddOutput, PlannedFault, fault_named
from cellwright.emulator.outputs import faulty_names
from cellwright.emulator.rules import RateLimit, ServerRules
from cellwright.emulator.script import Script
from cellwright.errors import UsageError


def test_every_fault_has_a_name_of_its_own_and_a_sentence():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert [fault.name for fault in FAULTS if not fault.sentence.endswith(".")] == []


def test_every_fault_of_the_output_can_be_brought_about():
    assert {fault.name for fault in FAULTS if isinstance(fault.effect, OddOutput)} == faulty_names()


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("stalled", PlannedFault("stalled", 1, 1)),
        ("stalled@3", PlannedFault("stalled", 3, 1)),
        ("stalled@3x2", PlannedFault("stalled", 3, 2)),
        ("stalledx2", PlannedFault("stalled", 1, 2)),
        ("stalled@*x*", PlannedFault("stalled", None, None)),
        ("quota_spent", PlannedFault("quota_spent", 1, None)),
        ("quota_spentx1", PlannedFault("quota_spent", 1, 1)),
    ],
)
def test_fault_is_asked_for_by_name_turn_and_times(text: str, plan: PlannedFault):
    assert PlannedFault.parse(text) == plan


def test_every_name_can_be_parsed():
    assert [PlannedFault.parse(f"{fault.name}@2x3").name for fault in FAULTS] == [fault.name for fault in FAULTS]


@pytest.mark.parametrize("text", ["", "stalled@", "stalled x", "stalled@2x", "stalled@-1", "STALLED"])
def test_fault_that_is_not_written_so_is_refused(text: str):
    with pytest.raises(UsageError, match=r"NAME\[@TURN\]\[xTIMES\]"):
        PlannedFault.parse(text)


def test_fault_that_there_is_not_is_refused_with_near_ones():
    with pytest.raises(UsageError, match="Perhaps: rate_limited, rate_limited_ms, rate_limited_silent"):
        fault_named("rate_limited_")
    with pytest.raises(UsageError, match="no fault 'nothing'"):
        PlannedFault("nothing")


def test_faults_are_added_to_the_turns_that_they_name():
    script = Script.parse("One.\n---\nfault: refused\nTwo.\n---\nThree.")
    plans = [PlannedFault.parse(text) for text in ("stalled@2", "overloaded@*x2")]
    names = [[fault.name for fault in turn.faults] for turn in script.with_faults(plans).turns]
    assert names == [["overloaded"], ["refused", "stalled", "overloaded"], ["overloaded"]]


def test_fault_of_a_turn_that_there_is_not_is_refused():
    with pytest.raises(UsageError, match="stalled@2: script has 1 turn"):
        Script.parse("One.").with_faults([PlannedFault.parse("stalled@2")])


def test_script_says_where_its_fault_is_none():
    with pytest.raises(UsageError, match="script, turn 2: There is no fault 'nothing'"):
        Script.parse("One.\n---\nfault: nothing\nTwo.")


def typed(*words: str) -> Result:
    app = typer.Typer()
    emulate.register(app)
    return CliRunner().invoke(app, list(words))


def test_command_line_lists_every_fault():
    listed = json.loads(typed("--list-faults", "--json").stdout)
    assert [(fault["name"], fault["sentence"]) for fault in listed] == [(one.name, one.sentence) for one in FAULTS]
    said = typed("--list-faults").stdout.splitlines()
    assert [line.split()[0] for line in said[1:]] == [fault.name for fault in FAULTS]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "A script is played, or a run with --run RUN"),
        (["x.md", "--run", "r"], "A script is played, or a run with --run RUN"),
        (["--run", "no-such-run"], "no-such-run"),
    ],
)
def test_either_a_script_is_played_or_a_run(words: list[str], said: str):
    ended = typed(*words)
    assert said in str(ended.exception)


def test_window_of_a_second_slides():
    now = [0.0]
    rate = RateLimit(2, lambda: now[0])
    assert [rate.wait_s(), rate.wait_s()] == [None, None]
    assert (rate.remaining, rate.wait_s()) == (0, 1.0)
    now[0] = 0.75
    assert rate.wait_s() == 0.25
    now[0] = 1.0
    assert (rate.wait_s(), rate.violations, rate.most) == (None, 2, 4)


def test_without_a_limit_all_may_come_and_are_counted():
    rate = RateLimit(None, lambda: 0.0)
    assert [rate.wait_s() for _ in range(100)] == [None] * 100
    assert (rate.violations, rate.most, rate.remaining) == (0, 100, None)


@pytest.mark.parametrize("name", ["requests_per_second", "context_tokens", "max_image_bytes"])
def test_rule_that_lets_nothing_through_is_refused(name: str):
    for value in (0, float("nan")):
        with pytest.raises(UsageError, match=f"{name} of {value:g} lets nothing through"):
            ServerRules(**{name: value})
