"""A run as a Jupyter notebook (nbformat 4.5), with its outputs, that runs where a desktop is.

Flows in: a `Run`. Flows out: its JSON, piece by piece. Decided here: the kernel is a stock Python one, which a first cell makes
ready; JavaScript cells are Python's magic `%%exec_js`, which that first cell defines; words of the model are text in a fence,
of which Markdown makes nothing; a cell that failed in the run is tagged `raises-exception`, so that those after it run as they did; one that did not end
by itself, or ended its kernel, `skip-execution`.
"""

from __future__ import annotations

import base64
import builtins
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cellwright.record import Run, StoredCell
from cellwright.replay.export_needs import needs_of
from cellwright.replay.export_parts import (
    GivenFile,
    Picture,
    Said,
    Words,
    given_files,
    is_deadly,
    is_endless,
    outputs_of,
    shown,
    story,
    wanted_of_who_runs_it,
)
from cellwright.replay.set_values import values_of

_LINE_CHARS: Final = 76
_TICKS: Final = re.compile(r"`+")
_STREAM_OF: Final = {"stdout": "stdout", "log": "stdout", "stderr": "stderr", "notice": "stderr"}
_OK: Final = "ok"
_DEFINED: Final = frozenset(
    "browser clipboard context display log page params prepare pyautogui screen secrets time ui get_ipython In Out".split()
)
"""Names that cells find defined."""


def notebook(run: Run) -> Iterator[str]:
    """Yield the notebook's text; never more than one cell's output at a time is in memory."""
    yield '{\n "cells": [\n'
    separator = ""
    for cell in _cells(run):
        yield separator
        yield from _json_of(cell)
        separator = ",\n"
    yield "\n ],\n"
    rest = json.dumps({"metadata": _metadata(run), "nbformat": 4, "nbformat_minor": 5}, indent=1)
    yield rest.removeprefix("{\n")
    yield "\n"


_Lazy = tuple[dict[str, Any], Iterator[dict[str, Any]] | None]
"""A cell without its outputs, and these; None for a cell that has none by its kind."""


def _cells(run: Run) -> Iterator[_Lazy]:
    yield _heading(run), None
    variables = _variables(values_of(run))
    if variables:
        yield _parameters(variables), iter(())
    yield _preparation(run, variables), iter(())
    for number, part in enumerate(story(run)):
        if isinstance(part, Said):
            yield _markdown(f"words-{number}", _fenced(part)), None
        else:
            yield _code_cell(part), _outputs(part, run)


def _json_of(cell: _Lazy) -> Iterator[str]:
    body, outputs = cell
    text = json.dumps(body, ensure_ascii=True)
    if outputs is None:
        yield text
        return
    yield f'{text[:-1]}, "outputs": ['
    separator = ""
    for output in outputs:
        yield separator + json.dumps(output, ensure_ascii=True)
        separator = ",\n"
    yield "]}"


def _metadata(run: Run) -> dict[str, Any]:
    return {
        "cellwright": {"run_id": run.info.run_id, "version": run.info.cellwright},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "file_extension": ".py", "mimetype": "text/x-python"},
    }


def _heading(run: Run) -> dict[str, Any]:
    words = [f"run {run.info.run_id} of {run.info.created_at}, {run.status}"]
    if run.info.task is not None:
        words.append(run.info.task)
    words += [f"problem: {problem.place} {problem.what}" for problem in run.problems]
    return _markdown("run", _fenced(Said("cellwright", "run", "\n".join(words))))


def _variables(params: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return name -> the variable that says it, and its value. One that would hide a name of the cells' is called otherwise."""
    hiding = {
        *keyword.kwlist,
        *dir(builtins),
        *_DEFINED,
        *(name for name in params if name.startswith("_")),
    }  # IPython's own
    taken = {*hiding, *params}
    variables: dict[str, tuple[str, str]] = {}
    for name, value in params.items():
        variable = name
        while variable in (hiding if variable == name else taken):
            variable += "_param"
        taken.add(variable)
        variables[name] = variable, value
    return variables


def _parameters(variables: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The cell that papermill, and what does as it does, replaces with other values."""
    lines = [
        "# parameters of the run, texts all of them",
        *(f"{name} = {value!a}" for name, value in variables.values()),
    ]
    return _our_code("parameters", lines, {"tags": ["parameters"]})


def _preparation(run: Run, variables: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    files = list(given_files(run))
    lines = [
        "# pip install cellwright[kernel]",
        "from cellwright_kernel.runtime import prepare",
        "",
        *(f"# {sentence}" for sentence in wanted_of_who_runs_it(run, files)),
        *prepare_lines("await prepare(globals(), ", needs_of(run.stored_cells), files, _as_dict(variables)),
    ]
    return _our_code("prepare", lines, {})


def _as_dict(variables: Mapping[str, tuple[str, str]]) -> str | None:
    pairs = (f'"{name}": str({variable})' for name, (variable, _) in variables.items())
    return f"{{{', '.join(pairs)}}}" if variables else None


def _our_code(name: str, lines: list[str], metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "execution_count": None,
        "source": "\n".join(lines),
    }


def prepare_lines(call: str, needs: tuple[str, ...], files: list[GivenFile], params: str | None) -> list[str]:
    """Return the lines of a call that names what is needed and carries the files that the run keeps.

    Args:
        call: How it begins.
        needs: Parts of the runtime.
        files: The run's.
        params: Code that gives the parameters; absent: there are none.
    """
    words = ", ".join((*(f'"{name}"' for name in needs), *((f"params={params}",) if params else ())))
    kept = [(file.path, file.data) for file in files if file.data is not None]
    if not kept:
        return [f"{call}{words})".replace(", )", ")")]
    lines = [f"{call}{words}{', ' if words else ''}files={{"]
    for path, data in kept:
        encoded = base64.b64encode(data).decode("ascii")
        lines.append(f"    {path!a}: (")
        pieces = [encoded[at : at + _LINE_CHARS] for at in range(0, len(encoded), _LINE_CHARS)] or [""]
        lines += [f'        "{piece}"' for piece in pieces]
        lines.append("    ),")
    return [*lines, "})"]


def _markdown(name: str, text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def _fenced(said: Said) -> str:
    """A title of ours, and a stranger's words in a fence that they cannot end."""
    longest = max((len(ticks) for ticks in _TICKS.findall(said.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"**{said.title}**\n\n{fence}text\n{said.text}\n{fence}"


def _code_cell(cell: StoredCell) -> dict[str, Any]:
    opened = cell.opened
    code = opened.code if opened.language == "python" else f"%%exec_js\n{opened.code}"
    tags = {"tags": _tags(cell)} if cell.closed is not None and cell.closed.status != _OK else {}
    status = cell.closed.status if cell.closed else "without an end"
    return {
        "cell_type": "code",
        "id": f"cell-{opened.number}",
        "metadata": {"cellwright": {"cell": opened.number, "status": status}, **tags},
        "execution_count": opened.number,
        "source": code,
    }


def _tags(cell: StoredCell) -> list[str]:
    """What clients of notebooks know: not to stop at an error; not to execute what does not end, or ends the kernel."""
    return ["skip-execution"] if is_endless(cell) or is_deadly(cell) else ["raises-exception"]


def _outputs(cell: StoredCell, run: Run) -> Iterator[dict[str, Any]]:
    for output in outputs_of(cell):
        match shown(output, run.blobs):
            case Words() as words:
                yield _of_words(words, cell.opened.number)
            case Picture() as picture:
                yield _of_picture(picture)


def _of_words(words: Words, number: int) -> dict[str, Any]:
    if words.source in _STREAM_OF:
        end = "" if words.source in {"stdout", "stderr"} else "\n"
        return {"output_type": "stream", "name": _STREAM_OF[words.source], "text": words.text + end}
    if words.source == "error":
        return _of_error(words.text)
    data = {"data": {"text/plain": words.text}, "metadata": {}}
    if words.source == "result":
        return {"output_type": "execute_result", "execution_count": number, **data}
    return {"output_type": "display_data", **data}


def _of_error(text: str) -> dict[str, Any]:
    last = text.rstrip("\n").rpartition("\n")[2]
    name, _, value = last.partition(": ")
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": text.split("\n")}


def _of_picture(picture: Picture) -> dict[str, Any]:
    size = {"width": picture.width, "height": picture.height}
    data = {picture.media_type: base64.b64encode(picture.data).decode("ascii")}
    return {"output_type": "display_data", "data": data, "metadata": {picture.media_type: size}}
