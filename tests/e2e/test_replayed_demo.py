"""The demo's run, done again by `cellwright replay`: without the web application, and without a model."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import ENDS_S, EXAMPLE, DoneDemo

from cellwright.record import read_run
from cellwright.record.records import Exchanged

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]


def port_of(demo: DoneDemo) -> int:
    """Return that of the web application, which is gone."""
    return next(one.port for one in read_run(demo.run).records if isinstance(one, Exchanged))


def replay(demo: DoneDemo, *options: str, env: bool = True) -> subprocess.CompletedProcess[str]:
    given = ["--env", f"EXPENSES_URL=http://127.0.0.1:{port_of(demo)}/"] if env else []
    line = [sys.executable, "-m", "cellwright", "replay", demo.run.name, *given, *options]
    return subprocess.run(line, env=demo.environment, capture_output=True, text=True, check=False, timeout=ENDS_S)


def test_it_is_the_same_and_all_is_there_to_do_it_again(done_demo: DoneDemo) -> None:
    """The run is as it was, byte by byte."""
    before = files_below(done_demo.run)
    done = replay(done_demo)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *cells, last = done.stdout.splitlines()
    assert [line.split(" in ")[0] for line in cells] == [
        *(f"cell {number}, python: same" for number in range(1, 7)),
        "cell 7, javascript: same",
    ]
    assert last.startswith("same: 7 cells as in the record · ")
    assert files_below(done_demo.run) == before


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_changed_table_is_found_at_the_cell_that_reads_it(done_demo: DoneDemo, tmp_path: Path) -> None:
    changed = tmp_path / "expenses.csv"
    shutil.copy(EXAMPLE / "expenses.csv", changed)
    changed.write_text(changed.read_text(encoding="utf-8").replace("89.90", "89.91"), encoding="utf-8")
    done = replay(done_demo, "--file", str(changed), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["divergence"], told["cells"][-1]["number"]) == (1, 1, 1)
    assert any("89.91" in line for line in told["cells"][0]["diff"])


def test_a_value_that_the_run_does_not_keep_is_asked_for(done_demo: DoneDemo) -> None:
    done = replay(done_demo, env=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Give the values again: --env EXPENSES_URL=VALUE." in done.stderr


def test_with_the_live_network_everything_is_sent_again(done_demo: DoneDemo, tmp_path: Path) -> None:
    """To an application that was started anew; one that still has the report shows it, and the cell that sees it is named."""
    app = [sys.executable, str(EXAMPLE / "app.py"), "--state", str(tmp_path), "--port", str(port_of(done_demo))]
    with subprocess.Popen(app, stdout=subprocess.PIPE, text=True) as application:
        try:
            assert application.stdout is not None
            assert application.stdout.readline().startswith("ready")
            first, second = (replay(done_demo, "--network", "live") for _ in range(2))
        finally:
            application.terminate()
    assert (first.returncode, first.stderr, first.stdout.splitlines()[-1].split(" · ")[0]) == (
        *(0, ""),
        "same: 7 cells as in the record",
    )
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (len(report["entries"]), report["signature"]["points"] >= 40) == (8, True)
    assert second.returncode == 1
    assert second.stdout.splitlines()[-1].startswith("differs: first at cell 2")
