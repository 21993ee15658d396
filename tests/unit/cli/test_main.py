"""The command `cellwright` as a person types it."""

import sys

import pytest
import typer

from cellwright.cli import main
from cellwright.errors import BadPath, EnvironmentMissing


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


def test_unknown_command_is_wrong_use(monkeypatch, capsys):
    assert status_of(monkeypatch, "nonsense") == 2
    assert "No such command 'nonsense'" in capsys.readouterr().err
