"""What `pytest --cellwright` takes for a run, and what loading it costs a suite that has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.replay.conftest import AT

from cellwright.record import Journal, RunInfo, recorded_spec
from cellwright.sandbox.base import Spec

pytestmark = pytest.mark.slow


def run_in(folder: Path) -> None:
    info = RunInfo(
        run_id="r", created_at=AT, cellwright="0.1.0", driver="cli", session_id="s", spec=recorded_spec(Spec())
    )
    Journal.create(folder, info).close("done")


def collected(here: Path, *words: str) -> tuple[int, str]:
    (here / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-p", "no:cacheprovider", "-q", "--co", *words]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_runs_are_collected_where_they_are_named_and_only_there(tmp_path: Path) -> None:
    here, outside = tmp_path / "project", tmp_path / "outside"
    run_in(here / "runs" / "one")
    run_in(here / "runs" / "two")
    run_in(outside)
    status, said = collected(here, "--cellwright", "runs/one", "--cellwright", str(outside), "--cellwright=runs/two")
    assert said.splitlines()[:3] == ["runs/one::replay", "runs/two::replay", f"{outside}::replay"], said
    assert status == 0
    assert collected(here)[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    status, said = collected(tmp_path, "--cellwright", "nothing")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert f"--cellwright {tmp_path / 'nothing'} is not a run: it has no run.json. Nothing was run." in said


def test_what_a_stranger_put_into_a_runs_folder_is_not_executed(tmp_path: Path) -> None:
    run_in(tmp_path / "run")
    for name in ("conftest.py", "test_own.py", "__init__.py"):
        (tmp_path / "run" / name).write_text("raise SystemExit('executed outside')")
    status, said = collected(tmp_path, "--cellwright", "run")
    assert (status, said.splitlines()[0]) == (0, "run::replay"), said


def test_it_loads_with_a_pytest_that_knows_no_folders(tmp_path: Path) -> None:
    ask = "import pytest; del pytest.Directory; import cellwright.pytest_plugin"
    assert subprocess.run([sys.executable, "-c", ask], check=False, cwd=tmp_path).returncode == 0


def test_pytest_does_not_warn_a_program_that_imported_us_before_it(tmp_path: Path) -> None:
    """It marks all that is installed with a plugin, as this `conftest.py` does."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "import pytest\npytest.register_assert_rewrite('cellwright', 'cellwright_kernel')\n"
    )
    begin = (
        "import cellwright, cellwright_kernel, pytest, sys; sys.exit(pytest.main(['-W', 'error', '-p', 'no:asyncio']))"
    )
    done = subprocess.run([sys.executable, "-c", begin], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr


def test_loading_it_loads_nothing_else_of_ours() -> None:
    ask = "import sys, pytest; before = set(sys.modules); import cellwright.pytest_plugin; print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert set(said.split()) <= {"cellwright", "cellwright.pytest_plugin"}
