"""Ctrl-C at any moment: the cell is interrupted, the run is closed in its journal, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "exec"])
def test_ctrl_c_closes_the_run_and_leaves_no_process(
    command: str, number: signal.Signals, tmp_path: Path, clean_environment: Path
) -> None:
    script = tmp_path / "script.md"
    script.write_text(SCRIPT)
    arguments = [sys.executable, "-m", "cellwright", *commands(script)[command]]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        until_journaled(clean_environment / "runs", "cell_opened")
        ours = descendants(process.pid)
        assert len(ours) > 5
        os.killpg(process.pid, number)  # what a terminal does: every process of the foreground group gets it
        printed = process.communicate(timeout=WAIT_S)[0]
    assert process.returncode == 130, printed
    assert alive(ours) == set()
    (summary,) = list_runs(clean_environment / "runs")
    run = read_run(Path(summary.folder))
    assert run.status == "cancelled"
    assert [cell.status for cell in run.cells] == ["interrupted"]
    assert verify(Path(summary.folder)).status == "whole"


def test_killing_the_command_takes_the_sandbox_with_it(clean_environment: Path) -> None:
    arguments = [sys.executable, "-m", "cellwright", "exec", ENDLESS]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        until_journaled(clean_environment / "runs", "cell_opened")
        ours = descendants(process.pid)
        process.kill()
    until(lambda: not alive(ours), "the sandbox ends with the process that made it")
    (summary,) = list_runs(clean_environment / "runs")
    assert read_run(Path(summary.folder)).status == "open"


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
