"""`cellwright export RUN --to FORM`: a run in a form that others read.

Flows in: RUN, a form, where to. Flows out: the file, and one line that names it. Decided here: its name where none is given,
which is that of the run's folder, since what a run calls itself somebody else has written; and that `-` is standard output.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.cli.param_words import params_from
from cellwright.cli.runs import RunArgument
from cellwright.errors import UsageError
from cellwright.plain import plain
from cellwright.record import Run, find_run, read_run
from cellwright.replay.export import Form, export, new_file
from cellwright.replay.lift import lift

_STDOUT: Final = "-"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export_run)


def export_run(
    run: RunArgument,
    *,
    to: Annotated[
        Form,
        typer.Option(
            help="`ipynb`: a Jupyter notebook; `py`: a plain script; `html`: one page; `zip`: the run's folder."
        ),
    ],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="PATH", help="Where to; `-` is standard output. Absent: RUN_ID.FORM, here."),
    ] = None,
    lift_: Annotated[
        list[str] | None,
        typer.Option(
            "--lift",
            metavar="NAME=LITERAL",
            help='Make this text or number, wherever a Python cell has it, the parameter params["NAME"]; may be repeated.',
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file; pack a run that was changed.")] = False,
) -> None:
    """Write a run as something that others can read or execute.

    Exit status: 0 when it was written; 1 when the run is not as it was written (`zip`), or the file could not be written; 2 used
    wrongly.
    """
    recorded = read_run(find_run(run))
    for problem in recorded.problems:
        print(f"cellwright: {plain(f'{problem.place} {problem.what}')}", file=sys.stderr)
    if lift_:
        recorded = _lifted(recorded, to, params_from(lift_, "--lift"))
    if out == _STDOUT:
        _to_stdout(recorded, to, force=force)
        return
    target = Path(out) if out is not None else Path(f"{recorded.folder.resolve().name}.{to}")
    with new_file(target, force=force) as file:
        export(recorded, to, file, force=force)
    print(plain(str(target)))


def _lifted(recorded: Run, to: Form, literals: dict[str, str]) -> Run:
    if to not in {"ipynb", "py"}:
        raise UsageError(
            f"--lift changes code, and --to {to} shows what ran. Nothing was written. Use --to ipynb or py."
        )
    lifted = lift(recorded, literals)
    for name in literals:
        print(lifted.words(name), file=sys.stderr)
    if lifted.left:
        cells = ", ".join(map(str, lifted.left))
        print(
            f"Left as it is in cell {cells}: in f-strings, longer texts, JavaScript or IPython's dialect.",
            file=sys.stderr,
        )
    return lifted.run


def _to_stdout(recorded: Run, to: Form, *, force: bool) -> None:
    if to == "zip" and sys.stdout.isatty():
        raise UsageError("A ZIP is nothing for a terminal. Nothing was written. Name a file with --out, or use a pipe.")
    export(recorded, to, sys.stdout.buffer, force=force)
    sys.stdout.buffer.flush()
