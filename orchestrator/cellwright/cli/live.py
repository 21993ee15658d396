"""A run by a model as it happens, on a terminal or in a pipe.

Flows in: `Progress` values. Flows out: lines on a console. Decided here: what a person sees: the code while it is being
written, what came of it, where the pictures are, and what it costs. Every word of the model's and of the sandbox's passes
through `plain` first.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from rich.console import Console
from rich.text import Text as Styled

from cellwright.cli.styles import STYLE_OF_SOURCE
from cellwright.counted import counted
from cellwright.model.base import Delta, Usage
from cellwright.plain import plain
from cellwright.prices import dollars
from cellwright.progress import (
    Arriving,
    Asked,
    AskedAgain,
    CallRejected,
    Cautioned,
    CellEnded,
    CellStarted,
    CellWrote,
    Progress,
    RunStarted,
    Told,
    TurnArrived,
    TurnStarted,
)
from cellwright_kernel.wire import Cell, Event, Image, Output, OutputEvent, PieceEvent, Text
from cellwright_kernel.wire_people import PersonAskedEvent

if TYPE_CHECKING:
    from cellwright.loop import Outcome

_STYLES: Final = {"text": "bold", "refusal": "red", "reasoning": "dim italic"}
_END_STYLES: Final = {"done": "bold green", "failed": "bold red", "cancelled": "bold yellow"}


class Live:
    """Shows one run. Call it with each `Progress`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._page = _Page(console)
        self.run_dir = Path()
        """The run's folder, once it is known."""
        self._item: str | None = None
        self._code = CodeArriving()
        self._seen = 0
        """Calls of this turn whose code was shown while it arrived, and that were not executed yet."""
        self._pieces = ""

    def __call__(self, progress: Progress) -> None:
        """Show one thing that happened."""
        match progress:
            case RunStarted():
                self.run_dir = progress.run_dir
                self._page.line(f"run {progress.run_id} · {plain(progress.model)} · {progress.run_dir}", "dim")
            case TurnStarted():
                self._seen, self._item = 0, None
                of = "(summary)" if progress.sums_up else f"of {progress.of}"
                self._page.line(f"── turn {progress.number} {of}", "cyan")
            case Arriving():
                self._arriving(progress.delta)
            case AskedAgain():
                thrown_away = " What was shown of the response is thrown away." if self._item is not None else ""
                self._seen, self._item = 0, None
                self._page.line(f"{plain(progress.reason)}{thrown_away}", "yellow")
            case TurnArrived():
                self._item = None
                total = f"{progress.total.total_tokens:,} in all{_money(progress.cost)}"
                self._page.line(f"{_tokens(progress.usage)} · {total}", "dim")
            case Told() | Cautioned() | Asked() | CallRejected():
                self._told(progress)
            case CellStarted():
                self._cell_started(progress)
            case CellWrote():
                self._wrote(progress.event)
            case CellEnded():
                self._cell_ended(progress.cell)
            case _:
                assert_never(progress)

    def outcome(self, outcome: Outcome) -> None:
        """Show how it ended."""
        if outcome.reason:
            self._page.line(plain(outcome.reason), "yellow")
        counts = f"{counted(outcome.turns, 'turn')}, {counted(outcome.cells, 'cell')}, {_tokens(outcome.usage)}{_money(outcome.cost)}"
        self._page.line(
            f"{outcome.status}: {counts} · {outcome.run_dir}", _END_STYLES.get(outcome.status, "bold yellow")
        )

    def cancelled(self) -> None:
        """Show that it was cancelled."""
        self._page.line(f"cancelled · {self.run_dir}", _END_STYLES["cancelled"])

    def _arriving(self, delta: Delta) -> None:
        is_new = delta.item_id != self._item
        self._item = delta.item_id
        if delta.kind != "arguments":
            if is_new:
                self._page.fresh("")
            self._page.write(plain(delta.text), _STYLES[delta.kind])
            return
        if is_new:
            self._seen += 1
            self._code = CodeArriving()
            self._page.line(plain(delta.name), "magenta")
            self._page.fresh("│ ")
        self._page.write(plain(self._code.feed(delta.text)), "green")

    def _cell_started(self, started: CellStarted) -> None:
        if self._seen:
            self._seen -= 1
        else:  # a server that doesn't stream, or more than one call
            self._page.line(started.language, "magenta")
            self._page.fresh("│ ")
            self._page.write(plain(started.code), "green")
        self._pieces = ""
        self._page.fresh("  ")

    def _told(self, progress: Told | Cautioned | Asked | CallRejected) -> None:
        match progress:
            case Told():
                self._page.line(f"told: {plain(progress.text)}", "yellow")
            case Cautioned():
                self._page.line(f"note: {plain(progress.text)}", "yellow")
            case Asked():
                self._page.line(f"asked: {plain(progress.question)}", "yellow")
                self._page.line(f"answer: {plain(progress.answer)}", "yellow")
            case CallRejected():
                self._page.line(f"not executed: {plain(progress.reason)}", "yellow")
            case _:
                assert_never(progress)

    def _wrote(self, event: Event) -> None:
        match event:
            case OutputEvent(output=output):
                self._output(output)
            case PieceEvent():
                self._pieces += event.text
                self._page.write(plain(event.text), STYLE_OF_SOURCE.get(event.source, ""))
            case PersonAskedEvent():
                self._page.line(f"asks: {plain(event.question)}", "yellow")
            case _:  # nothing to show
                pass

    def _output(self, output: Output) -> None:
        match output:
            case Text():
                # what came in pieces is there already; where the whole was cut, it doesn't begin with them
                rest = output.text.removeprefix(self._pieces) if self._pieces else output.text
                self._page.write(plain(rest), STYLE_OF_SOURCE.get(output.source, ""))
            case Image():
                where = self.run_dir / "blobs" / output.sha256
                self._page.fresh("  ")
                self._page.write(f"[{output.media_type} {output.width}x{output.height}: {where}]", "blue")
            case _:
                assert_never(output)
        self._pieces = ""
        self._page.fresh("  ")

    def _cell_ended(self, cell: Cell) -> None:
        took = f" in {cell.duration_ms / 1000:.1f} s" if cell.duration_ms is not None else ""
        self._page.line(f"cell {cell.number}: {cell.status}{took}", "dim" if cell.status == "ok" else "bold red")


class CodeArriving:
    r"""The code in the arguments of a call, decoded while they arrive: `{"code": "pri`, `nt(1)\\n`, ..."""

    _HEAD: Final = re.compile(r'\s*\{\s*"code"\s*:\s*"')
    _WHOLE: Final = re.compile(r'(?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*')
    _HALF_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")

    def __init__(self) -> None:
        self._rest = ""
        self._begun = False
        self._ended = False

    def feed(self, piece: str) -> str:
        """Return what of the code became readable with this piece."""
        self._rest += piece
        if not self._begun:
            head = self._HEAD.match(self._rest)
            if head is None:
                return ""
            self._begun, self._rest = True, self._rest[head.end() :]
        if self._ended:
            return ""
        match = self._WHOLE.match(self._rest)
        whole = self._HALF_PAIR.sub("", match[0] if match else "")
        self._rest = self._rest[len(whole) :]
        self._ended = self._rest.startswith('"')
        return str(json.loads(f'"{whole}"', strict=False))


class _Page:
    """A console on which text that comes in pieces has a margin at the start of each line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._margin = ""
        self._at_start = True

    def line(self, text: str, style: str) -> None:
        self.fresh("")
        self.write(text + "\n", style)

    def fresh(self, margin: str) -> None:
        """Go to the start of a line; what follows has this margin."""
        if not self._at_start:
            self._put("\n", "")
        self._margin, self._at_start = margin, True

    def write(self, text: str, style: str) -> None:
        for part in re.split(r"(?<=\n)", text):
            if part and self._at_start and self._margin:
                self._put(self._margin, "dim")
            if part:
                self._put(part, style)
                self._at_start = part.endswith("\n")

    def _put(self, text: str, style: str) -> None:
        self._console.print(Styled(text, style=style), end="", soft_wrap=True, highlight=False)


def _tokens(usage: Usage) -> str:
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"


def _money(cost: float | None) -> str:
    return "" if cost is None else f", {dollars(cost)}"
