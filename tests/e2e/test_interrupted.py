"""Ctrl-C at any moment: the cell is interrupted, the run is closed in its journal, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.serving import alive, descendants

from cellwright.record import list_runs, read_run, verify

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

ENDLESS = "log('started')\nimport time\nwhile True: time.sleep(0.01)"
SCRIPT = f"```python\n{ENDLESS}\n```\n\n---\n\nNever said.\n"
WAIT_S = 30


def commands(script: Path) -> dict[str, list[str]]:
    return {
        "run": ["run", "Loop for ever", "--emulate", str(script)],
        "exec": ["exec", ENDLESS],
    }


@pytest.mark.parametrize("command", ["run", "exec"])
def test_ctrl_c_closes_the_run_and_leaves_no_process(command: str, tmp_path: Path) -> None:
    """So does SIGTERM; one of each, beside each other."""
    script = tmp_path / "script.md"
    script.write_text(SCRIPT)
    with ExitStack() as stack:
        begun = [
            (number, stack.enter_context(started(tmp_path / number.name, *commands(script)[command])))
            for number in (signal.SIGINT, signal.SIGTERM)
        ]
        for number, process in begun:
            check_ended(process, number, tmp_path / number.name / "runs")


def check_ended(process: subprocess.Popen[str], number: signal.Signals, runs: Path) -> None:
    until_journaled(runs, "cell_opened")
    ours = descendants(process.pid)
    assert len(ours) > 5
    os.killpg(process.pid, number)  # what a terminal does: every process of the foreground group gets it
    printed = process.communicate(timeout=WAIT_S)[0]
    assert process.returncode == 130, printed
    assert alive(ours) == set()
    (summary,) = list_runs(runs)
    run = read_run(Path(summary.folder))
    assert run.status == "cancelled"
    assert [cell.status for cell in run.cells] == ["interrupted"]
    assert verify(Path(summary.folder)).status == "whole"


def test_killing_the_command_takes_the_sandbox_with_it(tmp_path: Path) -> None:
    with started(tmp_path, "exec", ENDLESS) as process:
        until_journaled(tmp_path / "runs", "cell_opened")
        ours = descendants(process.pid)
        process.kill()
    until(lambda: not alive(ours), "the sandbox ends with the process that made it")
    (summary,) = list_runs(tmp_path / "runs")
    assert read_run(Path(summary.folder)).status == "open"


def started(state: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cellwright", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "CELLWRIGHT_STATE": str(state)},
    )


def until_journaled(runs: Path, kind: str) -> None:
    until(
        lambda: any(f'"{kind}"' in journal.read_text() for journal in runs.glob("*/journal.jsonl")),
        f"a record {kind} is on disk",
    )


def until(fact, sentence: str) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + WAIT_S
    while not fact():
        assert time.monotonic() < end, sentence
        time.sleep(0.02)
