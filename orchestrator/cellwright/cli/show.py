"""One run as a page to read in a terminal or to pipe into a file.

Flows in: a `Run`. Flows out: lines on a console. Decided here: what of a run a person is shown, in which order, and that
every word of a stranger passes through `plain` first: code, outputs, host names, the model's messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.segment import Segments
from rich.syntax import Syntax
from rich.text import Text

from cellwright.cli.styles import STYLE_OF_SOURCE
from cellwright.counted import counted
from cellwright.plain import plain
from cellwright.record import Record, Run, StoredCell, records
from cellwright.record.stored import StoredImage, StoredText
from cellwright.record.totals import Totals, messages_of, totals_of
from cellwright.replay.set_values import values_of
from cellwright_kernel.wire import Language, Rung

STYLE_OF_STATUS: Final[Mapping[str, str]] = {
    "done": "green",
    "ok": "green",
    "running": "cyan",
    "open": "yellow",
    "cancelled": "yellow",
    "interrupted": "yellow",
    "timeout": "yellow",
    "budget": "yellow",
    "stuck": "yellow",
    "failed": "red",
    "error": "red",
    "kernel_died": "red",
    "sandbox_lost": "red",
    "denied": "red",
}

_ENDED_BY: Final[Mapping[Rung, str]] = {
    "interrupt": "ended by an interrupt",
    "kill_children": "ended by killing the processes that it had started",
    "kill_kernel": "ended by killing its kernel",
    "replace_sandbox": "ended with its sandbox, which was given up",
}


def console_for_output() -> Console:
    """Return the console of this command: colours on a terminal, plain text that is never wrapped in a pipe."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def show_run(run: Run, console: Console) -> None:
    """Print the whole run."""
    for line in _header(run):
        _print(console, line)
    cells = {cell.opened.number: cell for cell in run.stored_cells}
    for record in run.records:
        for part in _of_record(record, run, cells, console):
            _print(console, part)
    _print(console, Text())
    for line in _footer(totals_of(run)):
        _print(console, line)


def _print(console: Console, part: RenderableType) -> None:
    """A text goes out as it is: rich would look for places to wrap it, 20 times as long on a run of 5,000 cells."""
    if isinstance(part, Text):
        part.stylize(part.style)  # without any part of it styled, `render` leaves the style of the whole out
        console.print(Segments(part.render(console, end="\n")), soft_wrap=True, end="")
    else:
        console.print(part)


def _header(run: Run) -> Iterator[Text]:
    info = run.info
    yield Text.assemble(("run      ", "bold"), plain(info.run_id))
    if info.task is not None:
        yield Text.assemble(("task     ", "bold"), _indented(info.task))
    yield Text.assemble(("driver   ", "bold"), info.driver, plain(f", {info.model}") if info.model else "")
    if info.replay_of is not None:
        yield Text.assemble(("replay   ", "bold"), plain(f"of {info.replay_of}"))
    if info.fork_of is not None:
        yield Text.assemble(("fork     ", "bold"), plain(f"of {info.fork_of}, at cell {info.at}"))
    reason = f": {run.end.reason}" if run.end and run.end.reason else ""
    yield Text.assemble(("status   ", "bold"), (run.status, STYLE_OF_STATUS[run.status]), _one_line(reason))
    yield Text.assemble(("sandbox  ", "bold"), plain(_spec(run)))
    ended = f" to {run.end.at}" if run.end else ""
    yield Text.assemble(("time     ", "bold"), plain(f"{info.created_at}{ended}"))
    yield Text.assemble(("folder   ", "bold"), plain(str(run.folder)))
    for problem in run.problems:
        yield Text(plain(f"problem  {problem.place} {problem.what}"), style="red" if problem.is_change else "yellow")


def _spec(run: Run) -> str:
    spec = run.info.spec
    words = [f"{spec.get('backend')} {spec.get('width')}x{spec.get('height')}"]
    for name in ("allow", "files", "env"):
        if isinstance(value := spec.get(name), list) and value:
            words.append(f"{name}: {', '.join(str(part) for part in value)}")
    if params := values_of(run):
        words.append(f"params: {', '.join(f'{name}={value!r}' for name, value in params.items())}")
    if spec.get("out"):
        words.append(f"out: {spec['out']}")
    return "; ".join(words)


def _of_record(record: Record, run: Run, cells: Mapping[int, StoredCell], console: Console) -> Iterator[RenderableType]:
    match record:
        case records.CellOpened():
            yield from _cell(cells[record.number], run, console)
        case records.ModelResponse():
            yield Text(f"\n── turn {record.turn} ({_seconds(record.duration_ms)})", style="bold blue")
            yield from (Text(_indented(f"{phase}: {text}")) for phase, text in messages_of(record.response))
        case records.ModelFailed():
            status = f" (status {record.http_status})" if record.http_status else ""
            yield Text(_one_line(f"turn {record.turn}: no response{status}: {record.reason}"), style="red")
        case records.Egress() | records.EgressMore():
            yield from _egress(record)
        case records.KernelRestarted():
            yield Text(f"the {record.language} kernel was restarted", style="yellow")
        case records.FileWritten() | records.FileDeleted():
            did = "written" if isinstance(record, records.FileWritten) else "deleted"
            yield Text(_one_line(f"file {did}: {record.path}"))
        case (
            records.Note()
            | records.CellRebuilt()
            | records.HistoryShortened()
            | records.PersonAnswered()
            | records.ApprovalDecided()
        ):
            yield Text(_one_line(_words(record)), style="yellow")
        case records.SessionOpened() | records.SessionClosed():
            yield from _session(record)
        case records.RunClosed():
            if record.summary:
                yield Text.assemble("\n", ("summary  ", "bold"), _indented(record.summary))
        case (
            records.CellRunning()
            | records.CellClosed()
            | records.LateOutput()
            | records.Exchanged()
            | records.RequestSent()
            | records.Screen()
            | records.ModelRequest()
            | records.TermsSet()
        ):
            return  # shown with their cell, or not at all
        case _:
            assert_never(record)


def _words(
    record: records.Note
    | records.CellRebuilt
    | records.HistoryShortened
    | records.PersonAnswered
    | records.ApprovalDecided,
) -> str:
    match record:
        case records.Note():
            return f"note: {record.text}"
        case records.CellRebuilt():
            return _rebuilt(record)
        case records.HistoryShortened(how="pictures"):
            return f"from here on {counted(record.pictures_dropped, 'older picture')} no longer sent"
        case records.HistoryShortened():
            return f"from here on a summary is sent instead of what came before: {record.summary}"
        case records.ApprovalDecided():
            where = f"{record.place}" if record.place else f"cell {record.cell}"
            return f"{where}: {'approved' if record.approved else 'denied'}{f' ({record.reason})' if record.reason else ''}"
        case _:
            return f"no answer: {record.refused}" if record.answer is None else f"a person answered: {record.answer}"


def _rebuilt(record: records.CellRebuilt) -> str:
    how = "not executed again" if record.status is None else f"executed again: {record.status}"
    network = "" if record.status is None else ", on the live network" if record.is_live else ""
    return f"cell {record.number}, {how}{network}{f'. {record.reason}' if record.reason else ''}"


def _egress(record: records.Egress | records.EgressMore) -> Iterator[Text]:
    if isinstance(record, records.EgressMore):
        counts = f"{record.allowed} allowed, {record.refused} refused"
        yield Text(f"egress, more than is recorded singly: {counts}", style="yellow")
    elif not record.allowed:
        why = f" ({record.reason})" if record.reason else ""
        yield Text(_one_line(f"egress refused: {record.method} {record.host}:{record.port}{why}"), style="yellow")


def _session(record: records.SessionOpened | records.SessionClosed) -> Iterator[Text]:
    went = "in" if isinstance(record, records.SessionOpened) else "out"
    if isinstance(record, records.SessionOpened):
        on = ", ".join(f"{name} {number}" for name, number in sorted(record.versions.items()))
        yield Text(_one_line(f"session opened: usable after {_seconds(record.ready_ms)}{f', on {on}' if on else ''}"))
    elif record.reason:
        yield Text(_one_line(f"session closed: {record.reason}"))
    for file in record.files:
        yield Text(_one_line(f"file copied {went}: {file.path} ({counted(file.size_bytes, 'byte')})"))


def _cell(cell: StoredCell, run: Run, console: Console) -> Iterator[RenderableType]:
    opened, closed = cell.opened, cell.closed
    title = Text(f"\n── cell {opened.number}, {opened.language}: ", style="bold")
    if closed is None:
        unfinished = "running" if run.is_live else "no end was recorded"
        title.append(unfinished, style=STYLE_OF_STATUS["running" if run.is_live else "open"])
    else:
        title.append(closed.status, style=STYLE_OF_STATUS[closed.status])
        how = f", {_ENDED_BY[closed.rung]}" if closed.rung else ""
        title.append(f" in {_seconds(closed.duration_ms)}{how}")
    yield title
    yield _code(plain(opened.code), opened.language, console)
    outputs = closed.outputs if closed else cell.so_far
    for number in sorted({output.of_cell for output in outputs if output.of_cell is not None}):
        yield Text(f"   [here the model was shown the late output of cell {number}]", style="dim")
    yield from (_output(output, run) for output in outputs if output.of_cell is None)
    if cell.late:
        yield Text("   late output:", style="dim")
    yield from (_output(output, run) for output in cell.late)
    if cell.screen_after and cell.screen_after != opened.screen_before:
        yield Text(plain(f"   screen after it: {run.folder / 'blobs' / cell.screen_after}"), style="dim")


def _code(code: str, language: Language, console: Console) -> RenderableType:
    if not console.is_terminal:
        return Text("\n".join(f"   {line}" for line in code.rstrip("\n").split("\n")))
    return Padding(Syntax(code.rstrip("\n"), language, background_color="default", word_wrap=True), (0, 0, 0, 3))


def _output(output: StoredText | StoredImage, run: Run) -> Text:
    match output:
        case StoredText():
            lines = plain(output.text).rstrip("\n").split("\n")
            full = output.full_sha256 or output.text_sha256
            if full:
                lines.append(plain(f"[whole text: {run.folder / 'blobs' / full}]"))
            return Text("\n".join(f" > {line}" for line in lines), style=STYLE_OF_SOURCE.get(output.source, ""))
        case StoredImage():
            where = run.folder / "blobs" / output.sha256 if output.kept else "not kept"
            return Text(plain(f" > [{output.media_type} {output.width}x{output.height}: {where}]"), style="cyan")
        case _:
            assert_never(output)


def _footer(totals: Totals) -> Iterator[Text]:
    by_status = ", ".join(f"{count} {status}" for status, count in sorted(totals.cells_by_status.items()))
    yield Text.assemble(
        ("totals   ", "bold"),
        f"{counted(totals.turns, 'turn')}, {counted(totals.cells, 'cell')}",
        f" ({by_status})" if by_status else "",
        f" in {_seconds(totals.cells_ms)}, {totals.input_tokens} tokens in, {totals.output_tokens} out",
        f", egress {totals.egress_allowed} allowed, {totals.egress_refused} refused",
    )


def _one_line(text: str) -> str:
    return plain(text.replace("\n", "\u240a"))  # a name with a newline in it must not look like a line of ours


def _indented(text: str) -> str:
    return plain(text).rstrip("\n").replace("\n", "\n         ")


def _seconds(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
