"""The demo, done once: what it leaves is looked at, replayed and exported by several files, and changed by none."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "expenses"
ENDS_S = 180


@dataclass(frozen=True)
class DoneDemo:
    """What is left of the demo."""

    out: Path
    state: Path
    run: Path
    """The folder of its run."""
    printed: str

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to find its run."""
        return {**os.environ, "CELLWRIGHT_STATE": str(self.state)}


@pytest.fixture(scope="session")
def done_demo(tmp_path_factory: pytest.TempPathFactory) -> DoneDemo:
    """Run it as a person would, and return what it left."""
    folder = tmp_path_factory.mktemp("demo")
    out, state = folder / "out", folder / "state"
    command = [sys.executable, str(EXAMPLE / "demo.py"), "--out", str(out)]
    environment = {**os.environ, "CELLWRIGHT_STATE": str(state)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=ENDS_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (state / "runs").iterdir()
    return DoneDemo(out, state, run, done.stdout)
