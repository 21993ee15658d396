"""`cellwright bench`: the figures that are promised, measured here.

Flows in: nothing. Flows out: a few lines, or JSON. Decided here: how the figures are said.
"""

from __future__ import annotations

from typing import Annotated

import typer

from cellwright.bench import measure


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)


def bench(
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure a cold session, round trips and screenshots against a stock ipykernel, and JavaScript against Python."""
    figures = measure()
    if json:
        print(figures.model_dump_json())
        return
    print(f"cold session, first answer included   {' '.join(f'{ms:.0f}' for ms in figures.cold_session_ms)} ms")
    print(f"log(1) over POST /execute             {figures.execute_ms} ms (median), {figures.execute_p99_ms} ms (p99)")
    print(
        f"print(1), stock ipykernel, raw client {figures.baseline_ms} ms (median), {figures.baseline_p99_ms} ms (p99)"
    )
    print(f"ratio                                 {figures.ratio}")
    print(f"1+1 in Python over POST /execute      {figures.python_ms} ms (median)")
    print(f"1+1 in JavaScript, in turns with it   {figures.javascript_ms} ms (median)")
    print(f"ratio                                 {figures.javascript_ratio}")
    print(f"display(pyautogui.screenshot())       {figures.screenshot_ms} ms (median, 1440x1000, over POST /execute)")
    if figures.stock_screenshot_ms is None:
        print("the same in a stock ipykernel         not measured: scrot is not installed")
    else:
        print(f"the same, stock: scrot, Pillow        {figures.stock_screenshot_ms} ms (median, raw client)")
        print(f"stock takes                           {figures.screenshot_ratio} times as long")
