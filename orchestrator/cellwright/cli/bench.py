"""`cellwright bench`: the figures that are promised, measured here.

Flows in: which of them. Flows out: a table, or JSON. Decided here: how the figures are said, and in which order they are
measured: one after the other, since they would disturb each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from statistics import median
from typing import Annotated, Final

import typer

from cellwright.bench import journal, loop, neighbour, sessions, text, throughput
from cellwright.bench.cells import Figures, measure
from cellwright.bench.rows import Row
from cellwright.cli.show import console_for_output
from cellwright.cli.tables import new_table, print_table
from cellwright.errors import UsageError

_MORE: Final[dict[str, Callable[[], list[Row]]]] = {
    "typing": text.measure,
    "sessions": sessions.measure,
    "throughput": throughput.measure,
    "neighbour": neighbour.measure,
    "journal": journal.measure,
    "loop": loop.measure,
}
_PARTS: Final = ("cells", *_MORE)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)


def bench(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help=f"Measure this part; may be repeated: {', '.join(_PARTS)}."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure cells, screenshots, typing, starts, memory, ten sessions at once, a hostile one, the journal and our loop, each beside the stock way; takes four minutes."""
    parts = only or _PARTS
    for part in parts:
        if part not in _PARTS:
            raise UsageError(f"There is no part {part!r} to measure. Nothing was started. Use {', '.join(_PARTS)}.")
    figures = measure() if "cells" in parts else None
    rows = [row for part, of_part in _MORE.items() if part in parts for row in of_part()]
    if as_json:
        said = figures.model_dump() if figures else {}
        print(json.dumps({**said, "rows": [{**row.model_dump(), "ratio": row.ratio} for row in rows]}))
        return
    console = console_for_output()
    table = new_table(console, "what", "Cellwright", "baseline", "ratio", "the baseline is")
    for row in (*(_of_cells(figures) if figures else ()), *rows):
        baseline = "not measured" if row.baseline is None else f"{row.baseline:g} {row.unit}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.what, f"{row.ours:g} {row.unit}", baseline, ratio, row.stock)
    print_table(table, console)


def _of_cells(figures: Figures) -> list[Row]:
    """What `measure` says, as rows."""
    stock = "print(1) in a stock ipykernel, raw client"
    scrot = "stock pyautogui and Pillow, in a stock ipykernel"
    no_scrot = "not measured: scrot is not installed"
    return [
        _row("log(1) over POST /execute", figures.execute_ms, figures.baseline_ms, stock, figures.ratio),
        _row("the same, slowest but one of a hundred", figures.execute_p99_ms, figures.baseline_p99_ms, stock),
        _row(
            "1+1 in JavaScript",
            figures.javascript_ms,
            figures.python_ms,
            "1+1 in Python, in turns with it",
            figures.javascript_ratio,
        ),
        _row(
            "display(pyautogui.screenshot())",
            figures.screenshot_ms,
            figures.stock_screenshot_ms,
            scrot if figures.stock_screenshot_ms else no_scrot,
            figures.screenshot_ratio,
        ),
        _row("first request of a guide's client", round(median(figures.cold_session_ms)), None, "none"),
    ]


def _row(what: str, ours: float, baseline: float | None, stock: str, of_turns: float | None = None) -> Row:
    return Row(what=what, ours=ours, baseline=baseline, unit="ms", stock=stock, ratio_of_turns=of_turns)
