"""A replay as one HTML page: each cell's verdict, what differs, and both screens under a slider.

Flows in: the record, and what came of its replay. Flows out: the page, piece by piece. Decided here: a cell that is the same is
folded; of one that is not, all is there to judge by: reasons, the diff, and pictures of both runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cellwright.counted import counted
from cellwright.record import Run, StoredCell, read_run
from cellwright.replay.compare import Compared
from cellwright.replay.export_page import screen_picture, seconds
from cellwright.replay.export_parts import Picture, picture_bytes
from cellwright.replay.page import code, document, picture, text
from cellwright.replay.replay import Replayed
from cellwright_kernel.wire import LANGUAGE_NAMES

_Screens = tuple[str | None, str | None]
"""Blobs of the record and of the replay."""


def report(recorded: Run, replayed: Replayed) -> Iterator[str]:
    """Yield the page's text.

    Args:
        recorded: The record.
        replayed: What came of its replay, whose own run is still there.

    Raises:
        RunNotFound: The replay's run is gone.
        JournalCorrupt: It cannot be read.
    """
    return document(
        f"replay of {recorded.info.run_id}", _body(recorded, read_run(replayed.folder), replayed), script=True
    )


def _body(recorded: Run, again: Run, replayed: Replayed) -> Iterator[str]:
    yield f"<h1>Replay of {text(recorded.info.run_id)}</h1>\n<p>{_verdict(replayed)}</p>\n"
    if recorded.info.task:
        yield f'<p class="words">{text(recorded.info.task)}</p>\n'
    then = {cell.opened.number: cell for cell in recorded.stored_cells}
    now = {cell.opened.number: cell for cell in again.stored_cells}
    last: _Screens = (None, None)
    for compared in replayed.cells:
        cell, other = then[compared.number], now.get(compared.number)
        yield f'<section id="cell-{compared.number}">\n'
        yield from _cell(compared, cell)
        screens = (cell.screen_after, other.screen_after if other else None)
        if screens == last:
            yield '<p class="soft">The screens are those after the cell before.</p>\n'
        else:
            yield from _pair("screen", _loaded(screens[0], recorded), _loaded(screens[1], again))
        for one in compared.pictures:
            if one.what != "screen":
                yield from _pair(one.what, _loaded(one.recorded, recorded), _loaded(one.other, again))
        yield "</details>\n</section>\n"
        last = screens


def _verdict(replayed: Replayed) -> str:
    counts = Counter(cell.verdict for cell in replayed.cells)
    said = ", ".join(f'<span class="{verdict}">{count} {verdict}</span>' for verdict, count in counts.items())
    first = replayed.divergence
    where = f'; first at <a href="#cell-{first.number}">cell {first.number}</a>' if first else ""
    return f"{counted(len(replayed.cells), 'cell')}: {said}{where}{text(replayed.words_of_params)}"


def _cell(compared: Compared, then: StoredCell) -> Iterator[str]:
    """All but the pictures; what is folded stays open."""
    language = LANGUAGE_NAMES[then.opened.language]
    took = f"{seconds(compared.other_ms)}; {seconds(compared.recorded_ms)} in the record"
    yield f'<h2>cell {compared.number}, {language}: <span class="{compared.verdict}">{compared.verdict}</span> '
    yield f'<span class="soft">{took}</span></h2>\n'
    for reason in compared.reasons:
        yield f'<p class="differs">{text(reason)}</p>\n'
    for sentence in compared.notes:
        yield f'<p class="soft">{text(sentence)}</p>\n'
    yield f"<details{' open' if compared.verdict != 'same' else ''}><summary>code and screens</summary>\n"
    yield code(then.opened.code, then.opened.language)
    yield from _diff(compared.diff)


def _diff(lines: tuple[str, ...]) -> Iterator[str]:
    if not lines:
        return
    yield '<pre class="diff">'
    for line in lines:
        tag = {"+": "ins", "-": "del"}.get(line[:1])
        yield f"<{tag}>{text(line)}</{tag}>" if tag else f"{text(line)}\n"
    yield "</pre>\n"


def _loaded(sha256: str | None, run: Run) -> Picture | None:
    data = picture_bytes(sha256, run.blobs) if sha256 else None
    return None if data is None else screen_picture(run, data)


def _pair(what: str, then: Picture | None, now: Picture | None) -> Iterator[str]:
    """Both over one another, with a slider between; or the one that there is."""
    if then is None and now is None:
        return
    yield "<figure>\n"
    if then is not None and now is not None:
        yield '<div class="both">\n'
        yield from picture(now, f"{what} of the replay")
        yield '<div class="over">'
        yield from picture(then, f"{what} of the record")
        yield "</div></div>\n"
        yield f'<input type="range" min="0" max="100" value="50" aria-label="{text(what)}: record, or replay">\n'
        yield f"<figcaption>{text(what)}: left of the slider the record, right of it the replay</figcaption>\n"
    else:
        only = then or now
        assert only is not None  # noqa: S101 - for the type checker; one of them is there
        yield from picture(only, what)
        yield f"<figcaption>{text(what)}: only in the {'record' if then else 'replay'}</figcaption>\n"
    yield "</figure>\n"
