"""The demo's run, done again by `cellwright replay`: without the web application, and without a model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.record import read_run
from cellwright.record.records import Exchanged

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

EXAMPLE = Path(__file__).parents[2] / "examples" / "expenses"


@dataclass(frozen=True)
class Demo:
    """A run of the demo, and what is left of it."""

    run_id: str
    environment: dict[str, str]
    url: str

    def replay(self, *options: str, env: bool = True) -> subprocess.CompletedProcess[str]:
        words = ["replay", self.run_id, *(["--env", f"EXPENSES_URL={self.url}"] if env else []), *options]
        return command([sys.executable, "-m", "cellwright", *words], self.environment)


def command(line: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=180)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("replayed")
    environment = {**os.environ, "CELLWRIGHT_STATE": str(folder / "state")}
    done = command([sys.executable, str(EXAMPLE / "demo.py"), "--out", str(folder / "out")], environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (run_folder,) = (folder / "state" / "runs").iterdir()
    port = next(one.port for one in read_run(run_folder).records if isinstance(one, Exchanged))
    return Demo(run_folder.name, environment, f"http://127.0.0.1:{port}/")


def test_it_is_the_same_again_and_again(demo: Demo) -> None:
    for _ in range(2):
        done = demo.replay()
        assert (done.returncode, done.stderr) == (0, "")
        *cells, last = done.stdout.splitlines()
        assert [line.split(" in ")[0] for line in cells] == [
            *(f"cell {number}, python: same" for number in range(1, 7)),
            "cell 7, javascript: same",
        ]
        assert last.startswith("same: 7 cells as in the record · ")


def test_a_changed_table_is_found_at_the_cell_that_reads_it(demo: Demo, tmp_path: Path) -> None:
    changed = tmp_path / "expenses.csv"
    shutil.copy(EXAMPLE / "expenses.csv", changed)
    changed.write_text(changed.read_text(encoding="utf-8").replace("89.90", "89.91"), encoding="utf-8")
    done = demo.replay("--file", str(changed), "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["divergence"], told["cells"][-1]["number"]) == (1, 1, 1)
    assert any("89.91" in line for line in told["cells"][0]["diff"])


def test_a_value_that_the_run_does_not_keep_is_asked_for(demo: Demo) -> None:
    done = demo.replay(env=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Give the values again: --env EXPENSES_URL=VALUE." in done.stderr


def test_with_the_live_network_everything_is_sent_again(demo: Demo, tmp_path: Path) -> None:
    """To an application that was started anew; one that still has the report shows it, and the cell that sees it is named."""
    port = demo.url.removesuffix("/").rpartition(":")[2]
    app = [sys.executable, str(EXAMPLE / "app.py"), "--state", str(tmp_path), "--port", port]
    with subprocess.Popen(app, stdout=subprocess.PIPE, text=True) as application:
        try:
            assert application.stdout is not None
            assert application.stdout.readline().startswith("ready")
            first, second = (demo.replay("--network", "live") for _ in range(2))
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
