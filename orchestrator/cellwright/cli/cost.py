"""What a run took, for a person: `cellwright show RUN --cost`.

Flows in: a `Ledger`. Flows out: a table of turns and their cells, what they come to, and by which prices. Decided here: the columns.
"""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cellwright.cli.tables import print_table
from cellwright.counted import counted
from cellwright.ledger import CellTook, Ledger, Took, TurnTook
from cellwright.plain import plain
from cellwright.prices import dollars

_COLUMNS: Final = ("model s", "waited s", "person s", "cells s", "in", "cached", "out", "reasoning", "patches", "cost")


def show_cost(ledger: Ledger, console: Console) -> None:
    """Print it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, no_wrap=True, justify="right")
    for turn in ledger.turns:
        table.add_row(_name(turn), *_numbers(turn))
        _add_cells(turn.cells, table)
    _add_cells(ledger.other_cells, table)
    table.add_row("total", *_numbers(ledger.total), style="bold")
    print_table(table, console)
    for line in _remarks(ledger):
        console.print(Text(plain(line), style="dim"), soft_wrap=True)


def _name(turn: TurnTook) -> str:
    return f"turn {turn.turn}{', shared' if turn.is_shared else ''}{'' if turn.is_answered else ', no response'}"


def _add_cells(cells: tuple[CellTook, ...], table: Table) -> None:
    for cell in cells:
        how = "" if cell.status == "ok" else f", {cell.status or 'no end was recorded'}"
        row = ["", "", "", _seconds(cell.ms), *("" for _ in _COLUMNS[4:])]
        table.add_row(f"  cell {cell.number}{how}", *row, style="dim")


def _numbers(took: Took) -> list[str]:
    counts = (took.input_tokens, took.cached_tokens, took.output_tokens, took.reasoning_tokens)
    return [
        *(_seconds(ms) for ms in (took.model_ms, took.waited_ms, took.person_ms, took.cell_ms)),
        *(f"{count:,}" for count in counts),
        "?" if took.image_patches is None else f"{took.image_patches:,}",
        "?" if took.cost is None else dollars(took.cost),
    ]


def _remarks(ledger: Ledger) -> list[str]:
    lines = []
    for model, words in ledger.prices.items():
        lines.append(
            f"{model}: {words}."
            if words
            else f"{model}: its price is not known. An entry in a table of your own gives one: docs/loop.md."
        )
    silent = [turn for turn in ledger.turns if turn.is_answered and turn.cost is None and ledger.prices[turn.model]]
    if silent:
        lines.append(
            f"Of {counted(len(silent), 'turn')} the server did not say how many tokens it had, so what it cost is not known."
        )
    if ledger.rebuilt_ms:
        lines.append(
            f"{_seconds(ledger.rebuilt_ms)} s more were spent in cells that were executed again when it was taken up again."
        )
    if shared := sum(turn.is_shared for turn in ledger.turns):
        lines.append(
            f"{counted(shared, 'turn')} of another run, which this one is a fork of, was paid there and is not in the total."
        )
    return lines


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}"
