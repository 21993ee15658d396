"""A run as a plain Python script.

Flows in: a `Run`. Flows out: the script's text, piece by piece. Decided here: each cell is a function with the cell's own lines, in
the order of the record; what cannot stand in a function (IPython's magics, `from x import *`) and JavaScript are texts, which the
runtime executes; words of the model are comments; outputs are left out, since the script makes its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cellwright.plain import plain
from cellwright.record import Run, StoredCell
from cellwright.replay.export_cells import as_body
from cellwright.replay.export_needs import needs_of
from cellwright.replay.export_notebook import prepare_lines
from cellwright.replay.export_parts import Said, given_files, is_deadly, is_endless, story, wanted_of_who_runs_it
from cellwright.replay.set_values import values_of

_OK: Final = "ok"


def script(run: Run) -> Iterator[str]:
    """Yield the script's text."""
    yield from _lines(_head(run))
    for part in story(run):
        yield from _lines(_said(part) if isinstance(part, Said) else _cell(part))
    yield from _lines(["", "", 'if __name__ == "__main__":', "    _cw.run()"])


def _head(run: Run) -> Iterator[str]:
    yield "#!/usr/bin/env python3"
    yield from _comment(f"run {run.info.run_id} of {run.info.created_at}, as a script.")
    if run.info.task is not None:
        yield from _comment(run.info.task)
    yield "#"
    yield "# Needs: pip install cellwright[kernel]"
    files = list(given_files(run))
    for sentence in wanted_of_who_runs_it(run, files):
        yield from _comment(sentence)
    params = values_of(run)
    if params:
        yield "# Other values: python SCRIPT --set NAME=VALUE"
    yield "from cellwright_kernel.runtime import Script"
    yield ""
    yield from _params(params)
    yield from prepare_lines(
        "_cw = Script(globals(), ", needs_of(run.stored_cells), files, "PARAMS" if params else None
    )
    yield ""


def _params(params: Mapping[str, str]) -> Iterator[str]:
    if params:
        yield "PARAMS = {"
        yield from (f"    {name!a}: {value!a}," for name, value in params.items())
        yield "}"
        yield ""


def _said(said: Said) -> Iterator[str]:
    yield ""
    yield from _comment(f"{said.title}: {said.text}")


def _cell(cell: StoredCell) -> Iterator[str]:
    opened, closed = cell.opened, cell.closed
    has_failed = closed is not None and closed.status != _OK
    yield ""
    yield f"# -- cell {opened.number}" + (f": it ended {closed.status}" if has_failed and closed else "")
    if is_deadly(cell):
        yield "# It would end this script, too, so it is not run:"
        yield from _comment(opened.code)
        return
    how = ["may_fail=True"] if has_failed else []
    if closed is not None and is_endless(cell):
        how.append(f"limit_s={closed.duration_ms / 1000:g}")
    body = as_body(opened.code) if opened.language == "python" else None
    if body is not None:
        yield f"@_cw.cell({', '.join(how)})" if how else "@_cw.cell"
        yield f"async def _cell_{opened.number}():"
        yield from body
    else:
        do = "ipython" if opened.language == "python" else "javascript"
        yield f"_cw.{do}({', '.join((_literal(opened.code), *how))})"
    yield ""


def _literal(code: str) -> str:
    """A text that says exactly this, and can be read where that is possible."""
    readable = f'r"""\n{code}\n"""'
    is_safe = '"""' not in code and plain(code) == code and not code.endswith(("\\", '"'))
    return readable if is_safe else ascii(code)


def _comment(text: str) -> Iterator[str]:
    return (f"# {line}".rstrip() for line in plain(text).split("\n"))


def _lines(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"{line}\n" for line in lines)
