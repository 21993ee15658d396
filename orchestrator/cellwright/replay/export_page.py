"""A run as one HTML page, to send to somebody.

Flows in: a `Run`. Flows out: the page, piece by piece. Decided here: what stands in it: the words of the model and of Cellwright,
each cell with its code, what it showed, and the screen after it where that had changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cellwright.counted import counted
from cellwright.record import Run, StoredCell
from cellwright.record.totals import totals_of
from cellwright.replay.export_parts import Picture, Said, Words, outputs_of, picture_bytes, shown, story
from cellwright.replay.page import block, code, document, picture, text
from cellwright.replay.set_values import values_of
from cellwright_kernel.wire import LANGUAGE_NAMES

_SOURCES: Final = frozenset({"error", "stderr", "notice"})
_SHORT_MS: Final = 1000


def page(run: Run) -> Iterator[str]:
    """Yield the page's text; never more than one picture at a time is in memory."""
    return document(f"run {run.info.run_id}", _body(run))


def _body(run: Run) -> Iterator[str]:
    yield from _head(run)
    screen: str | None = None
    for part in story(run):
        yield "<section>\n"
        if isinstance(part, Said):
            yield from _said(part)
        else:
            yield from _cell(part, run)
            if part.screen_after != screen:
                yield from _screen(part, run)
                screen = part.screen_after
        yield "</section>\n"


def _head(run: Run) -> Iterator[str]:
    info, totals = run.info, totals_of(run)
    yield f"<h1>{text(info.task or f'run {info.run_id}')}</h1>\n<table>\n"
    facts = {
        "run": info.run_id,
        "driver": f"{info.driver}, {info.model}" if info.model else info.driver,
        "status": run.status,
        "parameters": ", ".join(f"{name} = {value!r}" for name, value in values_of(run).items()),
        "time": f"{info.created_at}{f' to {run.end.at}' if run.end else ''}",
        "totals": f"{counted(totals.turns, 'turn')}, {counted(totals.cells, 'cell')} in {seconds(totals.cells_ms)}",
    }
    for name, fact in ((name, fact) for name, fact in facts.items() if fact):
        yield f"<tr><td>{name}</td><td>{text(fact)}</td></tr>\n"
    for problem in run.problems:
        yield f'<tr><td>problem</td><td class="error">{text(f"{problem.place} {problem.what}")}</td></tr>\n'
    yield "</table>\n"


def _said(said: Said) -> Iterator[str]:
    yield f'<h2>{text(said.title)}</h2>\n<p class="words {said.by}">{text(said.text)}</p>\n'


def _cell(cell: StoredCell, run: Run) -> Iterator[str]:
    opened, closed = cell.opened, cell.closed
    ended = f"{closed.status} in {seconds(closed.duration_ms)}" if closed else "no end was recorded"
    kind = "ok" if closed and closed.status == "ok" else "error"
    language = LANGUAGE_NAMES[opened.language]
    yield f'<h2 id="cell-{opened.number}">cell {opened.number}, {language}: <span class="{kind}">{ended}</span></h2>\n'
    yield code(opened.code, opened.language)
    for output in outputs_of(cell):
        match shown(output, run.blobs):
            case Words(source, words):
                yield block(words, source if source in _SOURCES else "output")
            case Picture() as one:
                yield from picture(one, f"a picture that cell {opened.number} showed")


def _screen(cell: StoredCell, run: Run) -> Iterator[str]:
    data = picture_bytes(cell.screen_after, run.blobs) if cell.screen_after else None
    if data is not None:
        yield "<figure>\n"
        yield from picture(screen_picture(run, data), f"the screen after cell {cell.opened.number}")
        yield "<figcaption>the screen after it</figcaption>\n</figure>\n"


def screen_picture(run: Run, data: bytes) -> Picture:
    """Return a picture of the run's screen, in its size."""
    width, height = (run.info.spec.get(name) for name in ("width", "height"))
    return Picture(
        "image/png", width if isinstance(width, int) else 1440, height if isinstance(height, int) else 1000, data
    )


def seconds(ms: int) -> str:
    """Return a duration as people say it."""
    return f"{ms} ms" if ms < _SHORT_MS else f"{ms / 1000:.1f} s"
