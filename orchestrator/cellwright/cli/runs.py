"""The commands that look at runs on disk: `runs`, `show RUN`, `verify RUN`.

Flows in: RUN as a person wrote it. Flows out: tables and pages for a terminal, plain text for a pipe, JSON for a program.
Decided here: the shape of the JSON, and the exit status of `verify`: 1 when a run is not as it was written.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cellwright.cli.cost import show_cost
from cellwright.cli.show import STYLE_OF_STATUS, console_for_output, show_run
from cellwright.cli.tables import new_table, print_table
from cellwright.counted import counted
from cellwright.errors import UsageError
from cellwright.ledger import ledger_of
from cellwright.plain import plain
from cellwright.prices import read_prices
from cellwright.record import Run, RunSummary, Verdict, find_run, list_runs, read_run, runs_folder, verify
from cellwright.record.totals import totals_of
from cellwright.spans import spans_of

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program.")]
Cost = Annotated[
    bool,
    typer.Option(
        "--cost",
        help="Show what it took, turn by turn and cell by cell: time, tokens, pictures, and money by your prices.",
    ),
]
Spans = Annotated[
    bool, typer.Option("--spans", help="Print it as spans of OpenTelemetry, in OTLP's JSON, for a collector.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many of the newest runs to list.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("runs")(runs)
    app.command("show")(show)
    app.command("verify")(check)


def runs(*, limit: Limit = 20, as_json: Json = False) -> None:
    """List the runs of this machine, newest first, with how each ended and how its last cell did."""
    found = list_runs()
    if as_json:
        _print_json([summary.model_dump(mode="json") for summary in found[:limit]])
        return
    console = console_for_output()
    if not found:
        console.print(Text(f"There are no runs in {runs_folder()} yet. `cellwright exec 'log(41 + 1)'` makes one."))
        return
    print_table(_table(found[:limit], console), console)
    if (older := len(found) - limit) > 0:
        console.print(Text(f"{counted(older, 'older run')} not shown; --limit {len(found)} lists all."))


def show(run: RunArgument, *, cost: Cost = False, spans: Spans = False, as_json: Json = False) -> None:
    """Show a run: its task, every cell with what came of it, the model's words, totals; or what it took."""
    if cost and spans:
        raise UsageError("--cost and --spans are two views of a run. Nothing was shown. Give one of them.")
    found = read_run(find_run(run))
    if spans:
        _print_json(spans_of(found, read_prices()))
        return
    if cost:
        ledger = ledger_of(found, read_prices())
        if as_json:
            _print_json(ledger.model_dump(mode="json"))
        else:
            show_cost(ledger, console_for_output())
        return
    if as_json:
        _print_json(_whole(found))
        return
    show_run(found, console_for_output())


def check(run: RunArgument, *, as_json: Json = False) -> None:
    """Check that a run is as it was written: every record, every blob."""
    verdict = verify(find_run(run))
    if as_json:
        _print_json({**verdict.model_dump(mode="json"), "sentence": verdict.sentence})
    else:
        _print_verdict(verdict, console_for_output())
    if verdict.status == "changed":
        raise typer.Exit(1)


def _table(summaries: list[RunSummary], console: Console) -> Table:
    table = new_table(console, "run", "status", "driver", "cells", "last cell", "task or first line")
    for summary in summaries:
        table.add_row(
            Text(plain(summary.run_id)),
            Text(summary.status, style=STYLE_OF_STATUS.get(summary.status, "")),
            summary.driver,
            "" if summary.cells is None else str(summary.cells),
            Text(summary.last_cell_status or "", style=STYLE_OF_STATUS.get(summary.last_cell_status or "", "")),
            Text(" ".join(plain(summary.task or summary.first_line or "").split())),
        )
    return table


def _print_verdict(verdict: Verdict, console: Console) -> None:
    for problem in verdict.problems:
        style = "red" if problem.is_change else "yellow"
        console.print(Text(plain(f"{problem.place} {problem.what}"), style=style), soft_wrap=True)
    style = {"whole": "green", "open": "yellow", "changed": "bold red"}[verdict.status]
    console.print(Text(f"{verdict.status}: {verdict.sentence}", style=style), soft_wrap=True)


def _whole(run: Run) -> dict[str, Any]:
    return {
        "info": run.info.model_dump(mode="json"),
        "folder": str(run.folder),
        "status": run.status,
        "totals": totals_of(run).model_dump(mode="json"),
        "problems": [problem.model_dump(mode="json") for problem in run.problems],
        "cells": [
            {
                **cell.opened.model_dump(mode="json", exclude={"type", "v", "at"}),
                **(cell.closed.model_dump(mode="json", exclude={"type", "v", "at"}) if cell.closed else {}),
                **({"screen_after": cell.screen_after} if cell.screen_after else {}),
                "late": [late.model_dump(mode="json") for late in cell.late],
            }
            for cell in run.stored_cells
        ],
        "records": [{"n": line.number, **line.record.model_dump(mode="json"), "hash": line.hash} for line in run.lines],
    }


def _print_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=True, indent=2))
