"""The command `cellwright`: one file for each group of commands, put together here.

Flows in: the command line. Flows out: an exit status: 0 done, 1 the task did not succeed, 2 used wrongly, 3 this machine
is missing something, 130 interrupted. Decided here: an error of ours is one line on stderr, never a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Final

import typer

import cellwright
from cellwright.cli.interrupts import INTERRUPTED
from cellwright.errors import CellwrightError
from cellwright.plain import plain

_GROUPS: Final = (
    "run",
    "prompt",
    "probe",
    "emulate",
    "execute",
    "serve",
    "sessions",
    "people",
    "attach",
    "runs",
    "replay",
    "resume",
    "diff",
    "export",
    "bench",
    "doctor",
)
"""Files of this folder, in the order of `--help`; each has `register(app)`."""


def main() -> None:
    """Run the command that the command line names, and exit."""
    try:
        _app()()
    except CellwrightError as error:
        print(f"cellwright: {plain(str(error))}", file=sys.stderr)  # a sandbox's words may be in it
        sys.exit(error.exit_status)
    except OSError as error:  # of this machine: a folder that is not ours, a disk that is full
        print(f"cellwright: {plain(str(error))}. Usually a folder is missing, or not yours to write.", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _app() -> typer.Typer:
    # tracebacks without the values of variables: a key may be among them
    app = typer.Typer(
        name="cellwright",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_cellwright)
    for group in _GROUPS:
        import_module(f"cellwright.cli.{group}").register(app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(f"cellwright {cellwright.__version__}")
        raise typer.Exit


def _cellwright(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Execute a model's code on a real, isolated desktop, and keep the record of it."""
