"""Runs that were made to do harm: an export of them looks odd at most."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import Any

import pytest
from nbformat import validator
from tests.unit.replay.conftest import HOSTILE, add_cell
from tests.unit.replay.exported import Page, written

from cellwright.record import Journal, Run, records
from cellwright.record.stored import StoredImage
from cellwright.replay.export import Form
from cellwright_kernel.wire import Text

Made = Callable[..., Run]


@pytest.mark.parametrize("form", ["ipynb", "py", "html"])
def test_hostile_words_do_nothing(made: Made, form: Form) -> None:
    """In every place where a run has a stranger's words; code alone is kept as it was, to be run."""

    def hostile(journal: Journal) -> None:
        response = {"output": [{"type": "message", "content": [{"type": "output_text", "text": HOSTILE}]}]}
        journal.append(records.ModelResponse(turn=1, response=response, duration_ms=1))
        journal.append(records.ModelFailed(turn=1, reason=HOSTILE))
        journal.append(
            records.Egress(
                method="GET",
                host=HOSTILE,
                port=1,
                allowed=False,
                sent_bytes=0,
                received_bytes=0,
                started_at="x",
                duration_ms=1,
            )
        )
        for path in (f"../{HOSTILE}", "a\nimport os", "/etc/x"):
            journal.append(records.FileWritten(path=path, sha256="0" * 64, size_bytes=1))
        for source in ("stdout", "stderr", "log", "result", "display", "error", "notice"):
            add_cell(journal, f"'''{HOSTILE}'''", Text(text=HOSTILE, source=source))
        picture = StoredImage(sha256="../../etc/passwd", width=1, height=1, media_type="image/png", size_bytes=1)
        journal.append(records.LateOutput(of_cell=1, outputs=(picture,)))
        journal.append(records.Note(text=HOSTILE))

    said = written(made(hostile, task=HOSTILE), form)
    assert set(said) & {*map(chr, range(0x20)), "\x7f", "\u202e"} == {"\n"}
    assert "root:" not in said
    if form == "html":
        Page(said)
    elif form == "ipynb":
        check_notebook_of_hostile_words(json.loads(said))
    else:
        kinds = {type(node).__name__ for node in ast.parse(said).body}
        assert kinds == {"ImportFrom", "Assign", "Expr", "If"}


def check_notebook_of_hostile_words(book: Any) -> None:
    validator.validate(book)
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            _, _, fence, *_, last = cell["source"].split("\n")
            assert fence == f"{last}text"
            assert cell["source"].count(last) == 2
        assert all(set(output.get("data", {})) <= {"text/plain"} for output in cell.get("outputs", ()))
    shown = next(cell for cell in book["cells"] if cell["id"] == "cell-1")["outputs"]
    assert shown[0]["text"].startswith("␛[2J␛]0;title␇<script>")
    assert shown[1]["text"] == "[picture of 1x1: cannot be read from the run]\n"
