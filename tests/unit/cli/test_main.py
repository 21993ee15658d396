"""The command `cellwright` as a person types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import cellwright
from cellwright.cli import main
from cellwright.errors import BadPath, EnvironmentMissing

COMMAND = Path(sys.executable).with_name("cellwright")


def cellwright_says(*words, **environment):
    return subprocess.run(
        [COMMAND, *words], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **environment}
    )


def exit_of(monkeypatch, ending):
    """Run `main` with one command that ends as given; return the exit status."""
    app = typer.Typer()
    app.command()(ending)
    monkeypatch.setattr(main, "_app", lambda: app)
    monkeypatch.setattr(sys, "argv", ["cellwright"])
    with pytest.raises(SystemExit) as caught:
        main.main()
    return caught.value.code


@pytest.mark.parametrize(("error", "status"), [(BadPath, 2), (EnvironmentMissing, 3)])
def test_error_of_ours_is_one_line_and_its_exit_status(monkeypatch, capsys, error, status):
    def ending():
        raise error("What happened. What to do.")

    assert exit_of(monkeypatch, ending) == status
    assert capsys.readouterr().err == "cellwright: What happened. What to do.\n"


def test_interrupt_ends_with_130(monkeypatch):
    def ending():
        raise KeyboardInterrupt

    assert exit_of(monkeypatch, ending) == 130


@pytest.mark.slow
def test_version_is_the_packages():
    assert cellwright_says("--version").stdout == f"cellwright {cellwright.__version__}\n"


@pytest.mark.slow
def test_unknown_command_is_wrong_use():
    ended = cellwright_says("nonsense")
    assert ended.returncode == 2
    assert "No such command 'nonsense'" in ended.stderr


@pytest.mark.slow
def test_doctor_on_a_machine_that_lacks_something_exits_with_3(tmp_path):
    ended = cellwright_says("doctor", "--json", CELLWRIGHT_DATA=str(tmp_path))
    assert ended.returncode == 3
    told = json.loads(ended.stdout)
    assert told["ok"] is False
    assert [finding["name"] for finding in told["needed"] if not finding["ok"]] == ["runtime"]


@pytest.mark.slow
def test_doctor_ends_with_the_command_that_mends_it(tmp_path):
    ended = cellwright_says("doctor", CELLWRIGHT_DATA=str(tmp_path))
    assert ended.stdout.endswith("\n1 missing. To mend it:\n  bash scripts/setup.sh\n")
