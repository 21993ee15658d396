"""`cellwright diff RUN RUN`: both runs' cells, side by side.

Flows in: two runs. Flows out: a line for each cell, what differs below it, and the verdict; JSON for a program. Decided here:
the exit status, 0 only if every cell is the same.
"""

from __future__ import annotations

import asyncio
import json

import typer
from rich.console import Console
from rich.text import Text

from cellwright.cli.comparing import ComparingOptions
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.option_groups import with_options
from cellwright.cli.replay import cell_as_json, print_cell
from cellwright.cli.runs import Json, RunArgument
from cellwright.cli.show import console_for_output
from cellwright.counted import counted
from cellwright.record import Run, find_run, read_run
from cellwright.replay.compare import Compared
from cellwright.replay.diff import diff
from cellwright.replay.may_differ import MayDiffer
from cellwright_kernel.wire import Area


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("diff")(diff_runs)


@with_options(comparing=ComparingOptions)
def diff_runs(
    one: RunArgument,
    other: RunArgument,
    *,
    as_json: Json = False,
    comparing: ComparingOptions,
) -> None:
    """Compare the cells of two runs: code, status, texts, pictures and the screen after each.

    What is said of "the record" is said of the first run.

    Exit status: 0 when every cell is the same; 1 when one is not; 2 used wrongly; 3 this machine is missing something; 130 Ctrl-C.
    """
    first, second = read_run(find_run(one)), read_run(find_run(other))
    rules, masks = comparing.rules(), comparing.masks()
    console = console_for_output()
    try:
        cells = run_to_its_end(
            _cells(first, second, rules, masks, None if as_json else console, explain=comparing.explain)
        )
    except asyncio.CancelledError:
        raise typer.Exit(INTERRUPTED) from None
    differing = next((cell for cell in cells if cell.verdict != "same"), None)
    if as_json:
        whole = {"divergence": differing.number if differing else None, "cells": [cell_as_json(cell) for cell in cells]}
        print(json.dumps(whole, ensure_ascii=True, indent=2))
    elif differing is None:
        console.print(Text.assemble(("same", "green"), f": {counted(len(cells), 'cell')} in both"))
    else:
        many = sum(cell.verdict != "same" for cell in cells)
        console.print(
            Text.assemble(("differs", "red"), f": {many} of {counted(len(cells), 'cell')}, first {differing.number}")
        )
    if differing is not None:
        raise typer.Exit(1)


async def _cells(
    first: Run, second: Run, rules: MayDiffer, masks: tuple[Area, ...], console: Console | None, *, explain: bool
) -> list[Compared]:
    cells: list[Compared] = []
    languages = {cell.opened.number: cell.opened.language for cell in (*second.stored_cells, *first.stored_cells)}
    async for cell in diff(first, second, rules, masks=masks):
        cells.append(cell)
        if console is not None:
            print_cell(cell, languages[cell.number], console, explain=explain)
    return cells
