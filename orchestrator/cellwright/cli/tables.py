"""Tables, on a terminal and in a pipe.

Flows in: a table of rich. Flows out: lines on a console. Decided here: a terminal's lines are cut to its width, by which
a wide character counts for two; in a pipe nothing is cut, and nothing filled up at the end of a line.
"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text


def new_table(console: Console, *columns: str) -> Table:
    """Return an empty table; the last column takes what the others leave, and `cells` are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True, justify="right" if column == "cells" else "left")
    table.add_column(columns[-1], no_wrap=console.is_terminal, overflow="ellipsis" if console.is_terminal else "fold")
    return table


def print_table(table: Table, console: Console) -> None:
    """Print it."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()), soft_wrap=True)
