"""How a run goes on, said the same way by `resume` and `fork`.

Flows in: the words after `--rerun`, `--model`, `--emulate`, `--exec`, `--out`, `--max-turns` and their like. Flows out: the plan, who
goes on, and what is spent. Decided here: that at a terminal it is asked before a cell that sent something is executed again, and
elsewhere none is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from cellwright.budget import Budget
from cellwright.cli import options
from cellwright.errors import UsageError
from cellwright.model.base import DEFAULT_MODEL
from cellwright.model.script import Script
from cellwright.plain import plain
from cellwright.record import Run
from cellwright.replay.plan import Plan, Question, Rerun, plan_for
from cellwright_kernel.wire import Language

_CODE_LINES: Final = 30
_EMULATED: Final = "emulator"


@dataclass(frozen=True)
class Who:
    """Which model goes on."""

    name: str
    base_url: str | None
    script: Script | None


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
    model: Annotated[
        str | None, typer.Option(help="Name of the model that goes on. Default: the run's.", show_default=False)
    ] = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="A server of the Responses API, up to /v1. Default: OpenAI.")
    ] = None
    emulate: Annotated[
        Path | None,
        typer.Option(metavar="SCRIPT", help="Play this script from where the run is, instead of asking a model."),
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
    max_turns: Annotated[int, typer.Option(min=1, help="Further responses of the model; then it sums up.")] = 20
    max_cells: Annotated[int | None, typer.Option(min=1, help="Further cells that it may execute.")] = None
    max_seconds: Annotated[float | None, typer.Option(min=1, help="Seconds that it may take from now on.")] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print only the outcome, as JSON.")] = False

    @property
    def language(self) -> Language:
        """Of the cell to go on with; raises UsageError where there is no such language."""
        return options.language_from(self.lang)

    @property
    def budget(self) -> Budget:
        """What may be spent from now on."""
        return Budget(self.max_turns, self.max_cells, self.max_seconds)

    def plan(self, recorded: Run) -> Plan:
        """Return what becomes of the run's cells; may ask."""
        chosen: Rerun = self.rerun or ("ask" if sys.stdin.isatty() and sys.stderr.isatty() else "safe")
        return plan_for(recorded, chosen, marked=frozenset(self.mark or ()), ask=_ask)

    def who(self, recorded: Run) -> Who:
        """Return which model goes on; raises UsageError where that is not clear."""
        if self.emulate is not None and self.base_url is not None:
            raise UsageError(
                "--emulate plays a script, --base-url names a server. Nothing was started. Give one of them."
            )
        was = recorded.info.model
        if self.emulate is None and self.model is None and was == _EMULATED:
            raise UsageError(
                "This run was played from a script, so there is no model to go on. Nothing was started. Give --emulate SCRIPT, or --model."
            )
        script = None if self.emulate is None else Script.read(self.emulate)
        return Who(self.model or (_EMULATED if script is not None else was) or DEFAULT_MODEL, self.base_url, script)


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
