"""A person at the terminal of `cellwright run` and `exec`: asked, approving, and with one Ctrl-C that pauses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from cellwright.record import Run, list_runs, read_run, verify

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

WAIT_S = 30
ENDLESS = "log('star' 'ted')\nimport time\nwhile True: time.sleep(0.01)"
"""Says that it has started; its code, which is shown as it arrives, does not."""


@contextmanager
def at_terminal(state: Path, *words: str) -> Iterator[pexpect.spawn]:
    command = ["-W", "error", "-m", "cellwright", *words]
    environment = {**os.environ, "CELLWRIGHT_STATE": str(state), "TERM": "dumb"}
    terminal = pexpect.spawn(
        sys.executable, command, encoding="utf-8", timeout=WAIT_S, env=environment, dimensions=(50, 200)
    )
    try:
        yield terminal
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)


def model_run(tmp_path: Path, script: str, *words: str) -> tuple[str, ...]:
    (tmp_path / "script.md").write_text(script)
    return ("run", "Do it.", "--no-browser", "--emulate", str(tmp_path / "script.md"), *words)


def the_run(state: Path) -> Run:
    (summary,) = list_runs(state / "runs")
    assert verify(Path(summary.folder)).status == "whole"
    return read_run(Path(summary.folder))


def test_a_cell_asks_whoever_sits_there_and_control_characters_move_nothing(tmp_path: Path) -> None:
    code = "log(ask_user('Which \\x1b[2J account?'))"
    with at_terminal(tmp_path, "exec", "--no-browser", code) as terminal:
        terminal.expect("Cell 1 asks: Which ")
        assert "\x1b[2J" not in terminal.before + terminal.after
        terminal.expect("answer: ")
        terminal.sendline("the blue one")
        terminal.expect("the blue one\r\n")
        terminal.expect("the blue one\r\n")
    assert terminal.exitstatus == 0
    assert the_run(tmp_path).cells[0].text == "the blue one"


def test_answers_that_are_given_beforehand_are_used_first(tmp_path: Path) -> None:
    code = "log(ask_user('One?'), ); log(ask_user('Two?'))".replace(", )", ")")
    with at_terminal(tmp_path, "exec", "--no-browser", "--answer", "first", code) as terminal:
        terminal.expect("Cell 1 asks: Two")
        terminal.expect("answer: ")
        terminal.sendline("second")
    assert the_run(tmp_path).cells[0].text == "first\nsecond"


def test_each_cell_is_shown_and_approved_or_not(tmp_path: Path) -> None:
    script = (
        "```python\nx = 1\n```\n---\n```python\nx = 2\n```\n---\nexpect: The reason given: not two\n\n```python\nlog(x)\n```\n---\n"
        "expect: 1\n\nDone.\n"
    )
    with at_terminal(tmp_path, *model_run(tmp_path, script, "--approve", "each")) as terminal:
        for code, says in (("x = 1", "y"), ("x = 2", "not two"), (r"log\(x\)", "yes")):
            terminal.expect(r"waits for your approval. Each cell has to be approved \(--approve each\).")
            terminal.expect(rf"  \| {code}")
            terminal.expect(re.escape("execute it? [y, or why not] "))
            terminal.sendline(says)
        terminal.expect("done: 4 turns, 3 cells")
    assert terminal.exitstatus == 0
    assert [cell.status for cell in the_run(tmp_path).cells] == ["ok", "denied", "ok"]


def test_one_interrupt_pauses_and_a_word_steers_the_model(tmp_path: Path) -> None:
    script = f"```python\n{ENDLESS}\n```\n---\nexpect: interrupted\n\nI use the blue one.\n"
    with at_terminal(tmp_path, *model_run(tmp_path, script)) as terminal:
        terminal.expect("started")
        terminal.sendintr()
        terminal.expect("Paused; a cell that ran was interrupted.")
        terminal.expect("> ")
        terminal.sendline("Use the blue one.")
        terminal.expect("told: Use the blue one.")
        terminal.expect("done: 2 turns, 1 cell")
    assert terminal.exitstatus == 0
    run = the_run(tmp_path)
    assert [cell.status for cell in run.cells] == ["interrupted"]
    assert [r.text for r in run.records if r.type == "note" and r.topic == "steered"] == ["Use the blue one."]


@pytest.mark.parametrize(("typed", "status"), [("", "done"), ("stop", "cancelled")])
def test_one_interrupt_pauses_and_the_person_goes_on_or_stops(tmp_path: Path, typed: str, status: str) -> None:
    script = f"```python\n{ENDLESS}\n```\n---\nDone.\n"
    with at_terminal(tmp_path, *model_run(tmp_path, script)) as terminal:
        terminal.expect("started")
        terminal.sendintr()
        terminal.expect("> ")
        terminal.sendline(typed)
        terminal.expect(f"{status}: ")
    assert terminal.exitstatus == (0 if status == "done" else 1)
    assert the_run(tmp_path).status == status


@pytest.mark.parametrize("typed", ["", "Not that."])
def test_an_interrupt_while_code_still_arrives_holds_its_cell_back_until_the_person_goes_on(
    tmp_path: Path, typed: str
) -> None:
    comments = "".join(f"      # line {number} of what is shown as it arrives\n" for number in range(40))
    script = f"turns:\n- pace: 0.01\n  python: |\n{comments}      log('exe' 'cuted')\n- say: Done.\n"
    (tmp_path / "script.yaml").write_text(script)
    words = ("run", "Do it.", "--no-browser", "--emulate", str(tmp_path / "script.yaml"))
    with at_terminal(tmp_path, *words) as terminal:
        terminal.expect("line 0 of")
        terminal.sendintr()
        terminal.expect("> ")
        terminal.expect(re.escape("log('exe' 'cuted')"))
        terminal.expect("tokens in, ")  # the response is whole
        terminal.sendline(typed)
        if not typed:
            terminal.expect("executed")
            assert "cell 1" not in terminal.before
        terminal.expect("done: 2 turns, 0 cells" if typed else "done: 2 turns, 1 cell")
    assert terminal.exitstatus == 0
    assert [cell.status for cell in the_run(tmp_path).cells] == ([] if typed else ["ok"])


@pytest.mark.parametrize("ends", ["stop", "interrupt"])
def test_a_person_ends_a_run_whose_model_never_answers(tmp_path: Path, ends: str) -> None:
    with at_terminal(tmp_path, *model_run(tmp_path, "fault: stalled\n\nDone.\n")) as terminal:
        terminal.expect("turn 1 of")
        terminal.sendintr()
        terminal.expect("> ")
        if ends == "stop":
            terminal.sendline("stop")
            terminal.expect("cancelled: 0 turns, 0 cells")
        else:
            terminal.sendintr()
            terminal.expect("Ending in order; Ctrl-C again ends at once.")
    assert terminal.exitstatus == (1 if ends == "stop" else 130)
    run = the_run(tmp_path)
    (failed,) = [record for record in run.records if record.type == "model_failed"]
    why = "a person stopped the run" if ends == "stop" else "the run was interrupted from outside"
    assert failed.reason.startswith(f"The request was given up when {why}.")
    assert run.status == "cancelled"


def test_two_interrupts_end_the_run_in_order(tmp_path: Path) -> None:
    with at_terminal(tmp_path, *model_run(tmp_path, f"```python\n{ENDLESS}\n```\n---\nDone.\n")) as terminal:
        terminal.expect("started")
        terminal.sendintr()
        terminal.expect("> ")
        terminal.sendintr()
        terminal.expect("Ending in order; Ctrl-C again ends at once.")
    assert terminal.exitstatus == 130
    assert the_run(tmp_path).status == "cancelled"


def test_an_interrupt_while_the_model_asks_is_asked_about_first_and_the_question_again(tmp_path: Path) -> None:
    script = '```call ask_user\n{"question": "Which?"}\n```\n---\nexpect: blue\n\nDone.\n'
    with at_terminal(tmp_path, *model_run(tmp_path, script)) as terminal:
        terminal.expect("The model asks: Which")
        terminal.expect("answer: ")
        terminal.sendintr()
        terminal.expect("Paused;")
        terminal.expect("> ")
        terminal.sendline("")
        terminal.expect("The model asks: Which")
        terminal.expect("answer: ")
        terminal.sendline("blue")
        terminal.expect("done: 2 turns, 0 cells")
    assert terminal.exitstatus == 0


def test_without_a_terminal_nobody_can_approve_and_nothing_is_started(tmp_path: Path) -> None:
    command = f"{sys.executable} -m cellwright exec --approve each --no-browser 1 < /dev/null"
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    said, status = pexpect.run(
        f"/bin/sh -c '{command}'", withexitstatus=True, env=environment, encoding="utf-8", timeout=WAIT_S
    )
    assert status == 2
    assert "--approve each asks a person, and nobody can be asked here" in " ".join(said.split())
    assert not (tmp_path / "runs").exists()
