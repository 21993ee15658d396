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


def exit_of(monkeypatch, ending):
    """Run `main` with one command that ends as given; return the exit status."""
    app = typer.Typer()
    app.command()(ending)
    monkeypatch.setattr(main, "_app", lambda: app)
    return status_of(monkeypatch)


def status_of(monkeypatch, *words):
    """Run `main` in this process, which spares it the second that it takes to load; return the exit status."""
    monkeypatch.setattr(sys, "argv", ["cellwright", *words])
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
    ended = subprocess.run(
        [COMMAND, "--version"], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert ended.stdout == f"cellwright {cellwright.__version__}\n"


def test_unknown_command_is_wrong_use(monkeypatch, capsys):
    assert status_of(monkeypatch, "nonsense") == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err


@pytest.mark.slow
def test_doctor_on_a_machine_that_lacks_something_exits_with_3(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert status_of(monkeypatch, "doctor", "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [finding["name"] for finding in told["needed"] if not finding["ok"]] == ["runtime"]


@pytest.mark.slow
def test_doctor_ends_with_the_command_that_mends_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CELLWRIGHT_DATA", str(tmp_path))
    assert status_of(monkeypatch, "doctor") == 3
    assert capsys.readouterr().out.endswith("\n1 missing. To mend it:\n  bash scripts/setup.sh\n")
