"""How a run goes on, said the same way by `resume` and `fork`.

Flows in: the words after `--rerun`, `--exec`, `--out` and their like. Flows out: the plan. Decided here: that at a terminal it is asked before a cell that sent something is executed again, and
elsewhere none is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.cli import options
from cellwright.plain import plain
from cellwright.record import Run
from cellwright.replay.plan import Plan, Question, Rerun, plan_for
from cellwright_kernel.wire import Language

_CODE_LINES: Final = 30


@dataclass(frozen=True, kw_only=True)
class GoingOnOptions:
    """The options, as they were given; absent: not given."""

    rerun: Annotated[
        Rerun | None,
        typer.Option(
            "--rerun",
            help="Cells that sent something, that were running when it stopped, or that are marked. `safe`: none is executed again. "
            "`ask`: each is shown. `all`: all are, and send again. `recorded`: those of which the record has every answer are, and "
            "nothing is sent. Default: `ask` at a terminal, else `safe`.",
            show_default=False,
        ),
    ] = None
    mark: Annotated[
        list[int] | None,
        typer.Option("--mark", metavar="N", min=1, help="Treat cell N as one that sent something; may be repeated."),
    ] = None
    exec_: Annotated[
        str | None, typer.Option("--exec", metavar="CODE", help="Go on with this one cell, where no model does.")
    ] = None
    lang: Annotated[str, typer.Option(help="Of --exec: `py` or `js`.")] = "py"
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="At close, copy new and changed files of the sandbox's home into this folder."
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print only the outcome, as JSON.")] = False

    @property
    def language(self) -> Language:
        """Of the cell to go on with; raises UsageError where there is no such language."""
        return options.language_from(self.lang)

    def plan(self, recorded: Run) -> Plan:
        """Return what becomes of the run's cells; may ask."""
        chosen: Rerun = self.rerun or ("ask" if sys.stdin.isatty() and sys.stderr.isatty() else "safe")
        plan = plan_for(recorded, chosen, marked=frozenset(self.mark or ()), ask=_ask)
        left = [str(planned.cell.opened.number) for planned in plan.cells if planned.how == "left"]
        if self.rerun is None and chosen == "safe" and left:
            print(
                f"cellwright: not executed again, since nobody can be asked here: cell {', '.join(left)}. --rerun recorded executes "
                "those again of which the record has every answer, and sends nothing; --rerun all sends again what they sent.",
                file=sys.stderr,
            )
        return plan


def _ask(question: Question) -> bool:
    opened = question.cell.opened
    lines = opened.code.rstrip("\n").split("\n")
    shown = [
        *lines[:_CODE_LINES],
        *([f"... {len(lines) - _CODE_LINES} more lines"] if len(lines) > _CODE_LINES else []),
    ]
    print(plain(f"\ncell {opened.number}, {opened.language}: {question.reason}"), file=sys.stderr)
    for line in (*(f"   {line}" for line in shown), *(f"   sent: {sent}" for sent in question.sent)):
        print(plain(line), file=sys.stderr)
    return typer.confirm("Execute it again? What it sends is sent again.", default=False, err=True)
