"""Runs as tests of somebody's own suite: pytest in a process of its own, with a real sandbox for each run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.sandbox.base import Spec
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

ROWS = "import csv\nrows = list(csv.reader(open('rows.csv')))\nlog(sum(int(row[1]) for row in rows))"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Make a project with a test of its own, and a file."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n")
    (tmp_path / "rows.csv").write_text("bread,2\nmilk,3\n")
    return tmp_path


async def recorded(suite: Path, name: str, *codes: str) -> Path:
    spec = Spec(browser=False, files=(suite / "rows.csv",))
    async with Session.open(spec, runs=suite / "state") as session:
        for code in codes:
            await session.execute(code)
    kept = suite / "runs" / name
    shutil.copytree(session.run_dir, kept)
    for folder in kept.iterdir():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()  # git keeps no folder without files
    return kept


def outcome(suite: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:asyncio", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=suite, env=os.environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


async def test_a_run_that_is_the_same_passes_beside_the_suites_own_tests(suite: Path) -> None:
    await recorded(suite, "demo", ROWS)
    status, said = outcome(suite, "-v", "--cellwright", "runs/demo")
    assert status == 0, said
    assert "test_own.py::test_own PASSED" in said
    assert "runs/demo::replay PASSED" in said
    status, said = outcome(suite, "-rP", "-m", "cellwright", "--cellwright", "runs/demo")
    assert (status, "1 passed, 1 deselected" in said) == (0, True), said
    assert "same: 1 cell as in the record" in said


async def test_a_run_of_which_an_input_was_changed_fails_with_what_replay_prints(suite: Path) -> None:
    await recorded(suite, "demo", "log('begins')", ROWS, "log('is not reached')")
    (suite / "rows.csv").write_text("bread,2\nmilk,4\n")
    more = "--file rows.csv"
    status, said = outcome(suite, "--cellwright", "runs/demo", "--cellwright-args", more, "test_own.py")
    assert status == 1, said
    assert "cell 1, python: same in " in said
    assert "cell 2, python: differs in " in said
    assert "\n   -5\n   +6\n" in said
    assert "differs: first at cell 2, where it stopped; 1 same, 1 differs" in said
    assert "Traceback" not in said
    assert "pytest_plugin.py" not in said
    assert "FAILED runs/demo::replay" in said
    assert "1 failed, 1 passed" in said


async def test_rules_of_what_may_differ_are_passed_on(suite: Path) -> None:
    await recorded(suite, "demo", "import os\nlog('made', os.urandom(3).hex(), 'here')")
    (suite / "rules.toml").write_text("[[rule]]\nname = 'made'\npattern = 'made (?P<value>[0-9a-f]{6})'\n")
    assert outcome(suite, "--cellwright", "runs/demo")[0] == 1
    status, said = outcome(suite, "--cellwright", "runs/demo", "--cellwright-may-differ", "rules.toml")
    assert status == 0, said
