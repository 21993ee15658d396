"""What others get of a run: a notebook, a script, a page, its folder."""

from __future__ import annotations

import ast
import base64
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from nbformat import validator
from tests.unit.replay.conftest import PNG, RUN_ID, add_cell, fill
from tests.unit.replay.exported import Page, written
from typer.testing import CliRunner, Result

from cellwright.cli import main
from cellwright.errors import JournalCorrupt, UsageError
from cellwright.record import Journal, Run
from cellwright.replay.compare import Compared, PictureDiffers
from cellwright.replay.export import export
from cellwright.replay.replay import Replayed
from cellwright.replay.report import report
from cellwright_kernel.wire import Area, Image

Made = Callable[..., Run]
ENCODED = base64.b64encode(PNG).decode()


def test_notebook_has_code_outputs_and_pictures(made: Made) -> None:
    book = json.loads(written(made(fill), "ipynb"))
    validator.validate(book)
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert book["metadata"]["cellwright"]["run_id"] == RUN_ID
    kinds = [(cell["cell_type"], cell["id"]) for cell in book["cells"]]
    assert kinds == [
        ("markdown", "run"),
        ("code", "prepare"),
        ("markdown", "words-0"),
        ("code", "cell-1"),
        ("code", "cell-2"),
        ("code", "cell-3"),
        ("code", "cell-4"),
        ("markdown", "words-5"),
        ("markdown", "words-6"),
    ]
    code = {cell["id"]: cell for cell in book["cells"] if cell["cell_type"] == "code"}
    assert code["cell-3"]["source"] == "%%exec_js\nconsole.log(6 * 7)"
    assert [cell["outputs"] for cell in code.values()] == [
        [],
        [{"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "[3, 4, 5]"}, "metadata": {}}],
        [
            {"output_type": "stream", "name": "stdout", "text": "12\n"},
            {
                "output_type": "display_data",
                "data": {"image/png": ENCODED},
                "metadata": {"image/png": {"width": 4, "height": 3}},
            },
        ],
        [{"output_type": "stream", "name": "stdout", "text": "42\n"}],
        [
            {"output_type": "stream", "name": "stderr", "text": "oh\n"},
            {
                "output_type": "error",
                "ename": "ValueError",
                "evalue": "no: really",
                "traceback": ["Traceback:", "ValueError: no: really"],
            },
        ],
    ]
    assert [cell["metadata"].get("tags") for cell in code.values()] == [None, None, None, None, ["raises-exception"]]


def test_notebook_begins_with_what_its_cells_need_and_the_files_that_the_run_keeps(made: Made) -> None:
    book = json.loads(written(made(fill), "ipynb"))
    assert book["cells"][1]["source"].splitlines() == [
        "# pip install cellwright[kernel]",
        "from cellwright_kernel.runtime import prepare",
        "",
        "# The run was given this file too; put it here yourself: large.bin",
        'await prepare(globals(), "browser", "javascript", files={',
        "    'rows.csv': (",
        '        "YSxiCg=="',
        "    ),",
        "})",
    ]


def test_cells_that_did_not_end_by_themselves_are_not_waited_for(made: Made) -> None:
    def endless(journal: Journal) -> None:
        add_cell(journal, "while True: pass", status="timeout")
        add_cell(journal, "import os\nos._exit(1)", status="kernel_died")
        add_cell(journal, "for (;;);", language="javascript", status="interrupted")

    run = made(endless)
    said = written(run, "py").partition("# -- cell 1")[2].partition("# end")[0]
    assert said.splitlines() == [
        ": it ended timeout",
        "@_cw.cell(may_fail=True, limit_s=1.5)",
        "async def _cell_1():",
        "    while True: pass",
        "",
        "",
        "# -- cell 2: it ended kernel_died",
        "# It would end this script, too, so it is not run:",
        "# import os",
        "# os._exit(1)",
        "",
        "# -- cell 3: it ended interrupted",
        '_cw.javascript(r"""',
        "for (;;);",
        '""", may_fail=True, limit_s=1.5)',
        "",
        "",
    ]
    cells = json.loads(written(run, "ipynb"))["cells"][2:5]
    assert [cell["metadata"]["tags"] for cell in cells] == [["skip-execution"]] * 3


def test_script_is_python_with_the_cells_in_order(made: Made) -> None:
    said = written(made(fill), "py")
    ast.parse(said)
    assert (
        said
        == f'''#!/usr/bin/env python3
# run {RUN_ID} of 2026-11-29T16:17:24.000Z, as a script.
# Add the rows up
#
# Needs: pip install cellwright[kernel]
# The run was given this file too; put it here yourself: large.bin
from cellwright_kernel.runtime import Script

_cw = Script(globals(), "browser", "javascript", files={{
    'rows.csv': (
        "YSxiCg=="
    ),
}})


# turn 1: I look at *them*.

# -- cell 1
@_cw.cell
async def _cell_1():
    global rows
    rows = [3, 4, 5]
    _cw.show((rows))


# -- cell 2
@_cw.cell
async def _cell_2():
    log(sum(rows)); display(page)


# -- cell 3
_cw.javascript(r"""
console.log(6 * 7)
""")


# -- cell 4: it ended error
_cw.ipython(r"""
!ls
1/0
""", may_fail=True)


# note: A note.

# end: The run ended done.
# It is 12.


if __name__ == "__main__":
    _cw.run()
'''
    )


def test_page_tells_the_story_and_holds_its_pictures(made: Made) -> None:
    page = Page(written(made(fill), "html"))
    assert page.pictures == [f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in (PNG, PNG + b"2")]
    words = " ".join("".join(page.words).split())
    assert words.startswith(f"run {RUN_ID} Add the rows up run {RUN_ID} driver loop status done")
    assert (
        "turn 1 I look at *them*. cell 1, Python: ok in 1.5 s rows = [3, 4, 5] rows [3, 4, 5] cell 2, Python" in words
    )
    assert words.endswith("note A note. end The run ended done. It is 12.")


def test_page_has_no_script_and_a_policy_that_allows_none(made: Made) -> None:
    said = written(made(fill), "html")
    assert Page(said).scripts == 0
    assert "default-src 'none'; img-src data:; style-src 'sha256-" in said
    assert "script-src" not in said


def test_zip_is_the_folder(made: Made) -> None:
    run, file = made(fill), io.BytesIO()
    export(run, "zip", file)
    with zipfile.ZipFile(file) as packed:
        inside = {name: packed.read(name) for name in packed.namelist()}
    outside = {
        f"{RUN_ID}/{path.relative_to(run.folder)}": path.read_bytes()
        for path in run.folder.rglob("*")
        if path.is_file()
    }
    assert inside == outside


def test_zip_of_a_changed_run_only_for_who_insists(made: Made) -> None:
    run, file = made(fill), io.BytesIO()
    next((run.folder / "blobs").iterdir()).write_bytes(b"another")
    with pytest.raises(JournalCorrupt, match="Nothing was exported"):
        export(run, "zip", file)
    assert file.getvalue() == b""
    export(run, "zip", file, force=True)
    assert zipfile.is_zipfile(file)


def test_zip_follows_no_link(made: Made, tmp_path: Path) -> None:
    run, file = made(fill), io.BytesIO()
    (tmp_path / "secret").write_text("secret")
    (run.folder / "link").symlink_to(tmp_path / "secret")
    export(run, "zip", file, force=True)
    with zipfile.ZipFile(file) as packed:
        assert f"{RUN_ID}/link" not in packed.namelist()


def test_export_never_overwrites_by_itself(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(fill)
    monkeypatch.chdir(tmp_path)
    assert _call("export", run.folder, "--to", "py").stdout == f"{RUN_ID}.py\n"
    before = Path(f"{RUN_ID}.py").read_text()
    refused = _call("export", run.folder, "--to", "py")
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception) == (
        f"{RUN_ID}.py is there already. Nothing was written. Name another with --out, or say --force."
    )
    assert _call("export", run.folder, "--to", "py", "--force").exit_code == 0
    assert Path(f"{RUN_ID}.py").read_text() == before == _call("export", run.folder, "--to", "py", "--out", "-").stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{RUN_ID}.py", "runs"]


def test_the_file_has_the_name_of_the_runs_folder_whatever_the_run_calls_itself(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(fill).folder
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(info | {"run_id": "../../elsewhere"}))
    monkeypatch.chdir(folder)
    assert _call("export", ".", "--to", "html").stdout == f"{RUN_ID}.html\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    assert (folder / f"{RUN_ID}.html").is_file()


def test_what_cannot_be_finished_leaves_no_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made(fill)
    (run.folder / "head.json").write_text("changed")
    monkeypatch.chdir(tmp_path)
    assert isinstance(_call("export", run.folder, "--to", "zip").exception, JournalCorrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_report_shows_verdicts_diff_and_both_screens(made: Made) -> None:
    run = made(fill)

    def again(journal: Journal) -> None:
        add_cell(journal, "rows = [3, 4, 5]\nrows")
        add_cell(journal, "log(sum(rows)); display(page)")
        journal.screenshot(PNG + b"3", after_cell=2)

    other = made(again, run_id=f"{RUN_ID[:-1]}e")
    differs = PictureDiffers("screen", None, None, (Area(1, 2, 3, 4),))
    diff = ("--- record", "+++ replay", "@@ -1 +1 @@", "-12", "+<b>13</b>")
    cells = (
        Compared(1, "same", recorded_ms=10, other_ms=12),
        Compared(2, "differs", ("It said <something> else.",), diff, (differs,), notes=("It asked & got nothing.",)),
    )
    said = "".join(report(run, Replayed(other.folder, cells)))
    page = Page(said)
    assert page.scripts == 1
    assert said.count("script-src 'sha256-") == 1
    words = " ".join("".join(page.words).split())
    assert "2 cells: 1 same, 1 differs; first at cell 2" in words
    assert "cell 2, Python: differs 0 ms; 0 ms in the record It said <something> else. It asked & got nothing." in words
    assert "@@ -1 +1 @@ -12+<b>13</b>" in words
    screens = [f"data:image/png;base64,{base64.b64encode(PNG + end).decode()}" for end in (b"3", b"2")]
    assert page.pictures == screens
    assert "left of the slider the record, right of it the replay" in words


def _call(*words: str | Path) -> Result:
    return CliRunner().invoke(main._app(), [str(word) for word in words])


def test_a_picture_that_was_not_kept_or_changed_is_said(made: Made) -> None:
    def lost(journal: Journal) -> None:
        add_cell(journal, "1", Image(media_type="image/png", width=4, height=3, data=PNG))

    run = made(lost)
    next((run.folder / "blobs").iterdir()).write_bytes(b"changed")
    assert "[picture of 4x3: cannot be read from the run]" in written(run, "html")


@pytest.mark.parametrize("words", [["export", "{run}", "--to", "zip", "--out"], ["replay", "{run}", "--report"]])
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_anything_is_done(
    made: Made, tmp_path: Path, words: list[str]
) -> None:
    run = made(fill)
    line = [word.format(run=run.folder) for word in words]
    done = _call(*line, tmp_path / "missing" / "file")
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == (
        f"{tmp_path}/missing/file cannot be written: there is no folder {tmp_path}/missing. Nothing was written."
    )
