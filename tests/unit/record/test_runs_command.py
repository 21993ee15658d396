"""`runs`, `show` and `verify`, as a person and as a program call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from pydantic import JsonValue
from rich.cells import cell_len
from rich.text import Text as Ansi
from tests.unit.record.conftest import PNG
from typer.testing import CliRunner, Result

from cellwright.cli import runs
from cellwright.errors import RunNotFound
from cellwright.record import Blobs, Journal, RunInfo, read_run, verify
from cellwright.record.records import CellOpened, Egress
from cellwright_kernel.wire import Cell, Text


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the commands look into the test's own folder."""
    monkeypatch.setenv("CELLWRIGHT_STATE", str(tmp_path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def test_runs_lists_them_newest_first(closed_run: Path, info: RunInfo) -> None:
    assert _call("runs").stdout.splitlines() == [
        "run                       status  driver  cells  last cell  task or first line",
        f"{info.run_id}  done    loop        1  error      Fill in the form",
    ]
    [summary] = json.loads(_call("runs", "--json").stdout)
    assert (summary["run_id"], summary["status"], summary["folder"]) == (info.run_id, "done", str(closed_run))


def test_runs_fits_a_terminal_whatever_the_width_of_the_words(
    tmp_path: Path, info: RunInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide character counts for two; what doesn't fit is cut there, and nothing is filled up in a pipe."""
    for number, task in enumerate(("日本語" * 40, "words " * 60)):
        wide = info.model_copy(update={"run_id": f"{info.run_id[:-1]}{number}", "task": task})
        Journal.create(tmp_path / "runs" / wide.run_id, wide).leave()
    assert [cell_len(line) for line in _call("runs").stdout.splitlines()] == [78, 60 + 359, 60 + 240]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    shown = Ansi.from_ansi(_call("runs").stdout).plain.splitlines()
    assert [cell_len(line) for line in shown] == [100, 100, 100]


def test_runs_says_how_to_make_the_first_one(tmp_path: Path) -> None:
    said = f"There are no runs in {tmp_path}/runs yet. `cellwright exec 'log(41 + 1)'` makes one.\n"
    assert _call("runs").stdout == said
    assert json.loads(_call("runs", "--json").stdout) == []


@pytest.mark.parametrize(
    ("told", "line"),
    [({"replay_of": "one"}, "replay   of one"), ({"fork_of": "one", "at": 2}, "fork     of one, at cell 2")],
)
def test_show_says_of_which_run_a_run_is_another_one(
    tmp_path: Path, info: RunInfo, told: dict[str, object], line: str
) -> None:
    Journal.create(tmp_path / "runs" / info.run_id, info.model_copy(update=told)).leave()
    assert _call("show", info.run_id).stdout.splitlines()[3] == line


def test_show_tells_the_run_from_task_to_totals(closed_run: Path) -> None:
    end = read_run(closed_run).end
    assert end is not None
    blobs = closed_run / "blobs"
    image = read_run(closed_run).cell(1).images[0].sha256
    assert _call("show", closed_run.name).stdout == "\n".join(
        [
            f"run      {closed_run.name}",
            "task     Fill in the form",
            "driver   loop, gpt-6-astra",
            "status   done",
            "sandbox  bubblewrap 1440x1000; allow: 127.0.0.1:8000; env: TOKEN",
            f"time     2026-11-29T16:17:24.000Z to {end.at}",
            f"folder   {closed_run}",
            "session opened: usable after 1.8 s, on python 3.13.5",
            "file copied in: a.csv (3 bytes)",
            "turn 1: no response (status 503): The server was busy.",
            "",
            "── turn 1 (900 ms)",
            "commentary: Look",
            "",
            "── cell 1, python: error in 1.5 s, ended by an interrupt",
            "   s = '?'",
            "   print('hi')",
            " > hi",
            f" > [image/png 1440x1000: {blobs / image}]",
            " > ValueError: no",
            "   late output:",
            " > late",
            f"   screen after it: {blobs / Blobs.name(PNG + b'2')}",
            "egress refused: CONNECT example.org:443",
            "the python kernel was restarted",
            "file written: a.txt",
            "file deleted: a.txt",
            "egress, more than is recorded singly: 2 allowed, 40 refused",
            "note: A note.",
            "",
            "summary  All is filled in.",
            "",
            "totals   1 turn, 1 cell (1 error) in 1.5 s, 50 tokens in, 7 out, egress 2 allowed, 41 refused",
            "",
        ]
    )


def test_show_gives_the_whole_as_json(closed_run: Path) -> None:
    shown = json.loads(_call("show", closed_run.name, "--json").stdout)
    assert sorted(shown) == ["cells", "folder", "info", "problems", "records", "status", "totals"]
    assert shown["status"] == "done"
    assert shown["cells"][0]["code"] == "s = '\udc00'\nprint('hi')\n"
    assert shown["cells"][0]["outputs"][0] == {"type": "text", "text": "hi", "source": "stdout", "missing_chars": 0}
    assert [record["n"] for record in shown["records"]] == list(range(1, 17))


@pytest.mark.parametrize("is_terminal", [False, True])
def test_words_of_strangers_cannot_drive_the_terminal(
    tmp_path: Path, info: RunInfo, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m[red]\r\u202e:smile:"
    params: JsonValue = {"city": f"Rome\n── cell 9{evil}", f"a\n── cell 9{evil}": "x"}
    info = info.model_copy(update={"task": evil, "spec": {**info.spec, "params": params}})
    with Journal.create(tmp_path / "runs" / info.run_id, info) as journal:
        cell = Cell(number=1, language="python", code=evil, started_at="t", status="ok", duration_ms=1)
        journal.append(CellOpened.of(cell))
        journal.cell_closed(cell.model_copy(update={"outputs": (Text(text=evil, source="stdout"),)}))
        asked = {"method": "CONNECT", "host": f"a\n── cell 9{evil}", "port": 1, "started_at": "t", "duration_ms": 1}
        journal.append(Egress(allowed=False, sent_bytes=0, received_bytes=0, **asked))
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    for arguments in (("runs",), ("show", info.run_id)):
        shown = _call(*arguments).stdout
        assert [
            mark for mark in ("\x07", "\x1b]", "\x1b[2J", "\x9b", "\r", "\u202e", "\n── cell 9") if mark in shown
        ] == []
        assert "\x1b" not in shown or is_terminal
    assert "[red]" in shown
    assert ":smile:" in shown


def test_verify_exits_with_1_only_when_something_was_changed(closed_run: Path) -> None:
    good = _call("verify", closed_run.name)
    assert (good.exit_code, good.stdout) == (0, f"whole: {verify(closed_run).sentence}\n")
    data = (closed_run / "journal.jsonl").read_bytes()
    (closed_run / "journal.jsonl").write_bytes(data.replace(b"A note.", b"A nota."))
    bad = _call("verify", str(closed_run))
    assert bad.exit_code == 1
    assert bad.stdout == (
        "journal.jsonl: record 14 does not match its hash\n"
        "changed: 15 records and 3 blobs checked: the run is not as it was written.\n"
    )
    as_json = _call("verify", str(closed_run), "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["problems"] == [
        {"kind": "changed", "file": "journal.jsonl", "record": 14, "what": "does not match its hash"}
    ]


def test_run_that_is_not_there_is_an_error_of_ours() -> None:
    with pytest.raises(RunNotFound, match="There is no run '1999'"):
        _call("show", "1999")


def _call(*arguments: str) -> Result:
    app = typer.Typer()
    runs.register(app)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
