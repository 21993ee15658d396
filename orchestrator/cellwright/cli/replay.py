"""`cellwright replay RUN`: a run's cells again, in a fresh sandbox and without the model.

Flows in: RUN, and what is different this time. Flows out: a line for each cell, what differs below it, and the verdict; JSON for
a program. Decided here: the exit status, 0 only if every cell is the same; and how a comparison reads.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from cellwright.cli.comparing import ComparingOptions
from cellwright.cli.given_again import AgainOptions
from cellwright.cli.interrupts import INTERRUPTED, run_to_its_end
from cellwright.cli.option_groups import with_options
from cellwright.cli.param_words import params_from
from cellwright.cli.runs import RunArgument
from cellwright.cli.show import console_for_output
from cellwright.counted import counted
from cellwright.plain import plain
from cellwright.record import Run, find_run, read_run
from cellwright.replay.compare import Compared
from cellwright.replay.export import folder_must_be_there, new_file, write_text
from cellwright.replay.replay import Again, Replayed, replay
from cellwright.replay.report import report as report_of
from cellwright_kernel.wire import Language

_STYLE: Final = {"same": "green", "differs": "red", "failed": "bold red"}
_SHOWN_LINES: Final = 40


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay")(replay_run)


@with_options(given=AgainOptions, comparing=ComparingOptions)
def replay_run(
    run: RunArgument,
    *,
    network: Annotated[
        Literal["recorded", "live"],
        typer.Option(
            help="`recorded`: the run's own answers, and nothing goes out. `live`: what is sent is sent again."
        ),
    ] = "recorded",
    keep_going: Annotated[bool, typer.Option("--keep-going", help="Go on after a cell that is not the same.")] = False,
    first: Annotated[
        int, typer.Option("--from", min=1, help="Compare from this cell on; those before are done, too.")
    ] = 1,
    last: Annotated[int | None, typer.Option("--until", min=1, help="The last cell that is done.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(min=0.01, help="Pause between cells as the run did, so many times as fast. Absent: no pauses."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Another value for a parameter of the run (`--param`); may be repeated."
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="PAGE", help="Write one HTML page, with both screens of each cell; overwritten."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    given: AgainOptions,
    comparing: ComparingOptions,
) -> None:
    """Do a run's cells again without the model, and compare each with the record.

    Exit status: 0 when every cell is the same; 1 when one is not; 2 used wrongly; 3 this machine is missing something; 130 Ctrl-C.
    """
    if report is not None:
        folder_must_be_there(report)
    recorded = read_run(find_run(run))
    again = Again(
        may_differ=comparing.rules(),
        masks=comparing.masks(),
        keep_going=keep_going,
        first=first,
        last=last,
        speed=speed,
        env=given.environment(recorded),
        secrets=given.secrets(recorded),
        files=given.files(),
        params=params_from(set_ or (), "--set"),
        backend=given.sandbox,
        is_live=network == "live",
    )
    console = console_for_output()
    try:
        replayed = run_to_its_end(_replay(recorded, again, console, explain=comparing.explain, quiet=as_json))
    except asyncio.CancelledError:
        raise typer.Exit(INTERRUPTED) from None
    if report is not None:
        with new_file(report, force=True) as page:
            write_text(report_of(recorded, replayed), page)
    if as_json:
        print(json.dumps(_whole(replayed), ensure_ascii=True, indent=2))
    else:
        _print_verdict(replayed, again, console)
    if replayed.divergence is not None:
        raise typer.Exit(1)


async def _replay(recorded: Run, again: Again, console: Console, *, explain: bool, quiet: bool) -> Replayed:
    columns = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        bar = progress.add_task("replay", total=len(recorded.stored_cells))

        def told(compared: Compared) -> None:
            progress.update(bar, completed=max(compared.number, progress.tasks[0].completed))  # one may be told late
            if not quiet:
                language = recorded.stored_cells[compared.number - 1].opened.language
                print_cell(compared, language, console, explain=explain)

        return await replay(recorded, again, on_cell=told)


def print_cell(compared: Compared, language: Language, console: Console, *, explain: bool) -> None:
    """Print what came of one cell's comparison."""
    took = f" in {_seconds(compared.other_ms)}; {_seconds(compared.recorded_ms)} in the record"
    line = Text.assemble(f"cell {compared.number}, {language}: ", (compared.verdict, _STYLE[compared.verdict]), took)
    console.print(line, soft_wrap=True)
    for reason in compared.reasons:
        console.print(Text(plain(f"   {reason}"), style="red"), soft_wrap=True)
    for text in compared.diff[:_SHOWN_LINES]:
        style = {"+": "green", "-": "red"}.get(text[:1], "dim")
        console.print(Text(plain(f"   {text}"), style=style), soft_wrap=True)
    if (more := len(compared.diff) - _SHOWN_LINES) > 0:
        console.print(Text(f"   {counted(more, 'more line')}: --json has them", style="dim"), soft_wrap=True)
    for sentence in compared.notes:
        console.print(Text(plain(f"   {sentence}"), style="yellow"), soft_wrap=True)
    if explain:
        _print_left_out(compared, console)


def _print_left_out(compared: Compared, console: Console) -> None:
    then, now = map(_by_name, compared.may_differ)
    for name in sorted({*then, *now}):
        one, two = then.get(name, []), now.get(name, [])
        example = f"{one[0] if one else 'nothing'} in the record, {two[0] if two else 'nothing'} now"
        console.print(
            Text(plain(f"   <{name}>: {max(len(one), len(two))} left out, such as {example}"), style="dim"),
            soft_wrap=True,
        )


def _by_name(side: Sequence[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in side:
        found.setdefault(one.name, []).append(one.text)
    return found


def _print_verdict(replayed: Replayed, again: Again, console: Console) -> None:
    differing = replayed.divergence
    counts = Counter(cell.verdict for cell in replayed.cells)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    if differing is None:
        line = Text.assemble(("same", "green"), f": {counted(len(replayed.cells), 'cell')} as in the record")
    else:
        first = "" if again.keep_going else ", where it stopped"
        line = Text.assemble(
            (differing.verdict, _STYLE[differing.verdict]), f": first at cell {differing.number}{first}; {said}"
        )
    line.append(plain(replayed.words_of_params))
    console.print(line.append(plain(f" · {replayed.folder}")), soft_wrap=True)


def _whole(replayed: Replayed) -> dict[str, object]:
    differing = replayed.divergence
    return {
        "folder": str(replayed.folder),
        "divergence": differing.number if differing else None,
        "set": dict(replayed.params),
        "cells": [cell_as_json(cell) for cell in replayed.cells],
    }


def cell_as_json(cell: Compared) -> dict[str, object]:
    """Return a comparison for a program."""
    return {
        "number": cell.number,
        "verdict": cell.verdict,
        "reasons": cell.reasons,
        "diff": cell.diff,
        "pictures": [
            {
                "what": one.what,
                "recorded": one.recorded,
                "replayed": one.other,
                "areas": [*map(list, one.areas)],
            }
            for one in cell.pictures
        ],
        "left_out": [_by_name(side) for side in cell.may_differ],
        "notes": cell.notes,
        "recorded_ms": cell.recorded_ms,
        "replayed_ms": cell.other_ms,
    }


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
