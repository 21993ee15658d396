"""What the benchmark says, without measuring anything."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cellwright.bench.processes import below, pss_of
from cellwright.bench.rows import Row
from cellwright.cli import bench as command
from cellwright.cli import main
from cellwright.errors import UsageError

ROWS = [
    Row(what="typed", ours=50, baseline=200, unit="ms", stock="stock pyautogui"),
    Row(what="seen", ours=18.5, baseline=None, unit="ms", stock="not measured: scrot is not installed"),
]


@pytest.fixture
def _typing_is_known(monkeypatch) -> None:
    monkeypatch.setitem(command._MORE, "typing", lambda: ROWS)


@pytest.mark.usefixtures("_typing_is_known")
def test_a_row_shows_ours_beside_its_baseline() -> None:
    said = CliRunner().invoke(main._app(), ["bench", "--only", "typing"])
    assert said.exit_code == 0
    assert [line.split() for line in said.stdout.splitlines()] == [
        "what Cellwright baseline ratio the baseline is".split(),
        "typed 50 ms 200 ms 0.25 stock pyautogui".split(),
        "seen 18.5 ms not measured not measured: scrot is not installed".split(),
    ]


@pytest.mark.usefixtures("_typing_is_known")
def test_json_has_the_same_rows() -> None:
    said = json.loads(CliRunner().invoke(main._app(), ["bench", "--only", "typing", "--json"]).stdout)
    assert [(row["what"], row["ours"], row["baseline"], row["ratio"]) for row in said["rows"]] == [
        ("typed", 50, 200, 0.25),
        ("seen", 18.5, None, None),
    ]


def test_a_part_that_is_none_is_refused() -> None:
    said = CliRunner().invoke(main._app(), ["bench", "--only", "speed"])
    assert isinstance(said.exception, UsageError)
    assert "There is no part 'speed' to measure. Nothing was started. Use cells, typing, sessions" in str(
        said.exception
    )


def test_memory_is_that_of_all_processes_below() -> None:
    code = "import subprocess, sys; subprocess.run(['sleep', '60'])"
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        try:
            while not any(process.name == "sleep" for process in below(parent.pid)):
                assert parent.poll() is None
            found = below(parent.pid)
            assert [process.name for process in found] == ["sleep"]
            assert pss_of(found)["sleep"] > 0
        finally:
            for process in found:
                subprocess.run(["kill", str(process.pid)], check=True)
            parent.wait(10)
    assert below(parent.pid) == ()
