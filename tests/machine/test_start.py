"""The command `cellwright` in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

import cellwright

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("cellwright")


def test_version_is_the_packages():
    ended = subprocess.run(
        [COMMAND, "--version"], check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert ended.stdout == f"cellwright {cellwright.__version__}\n"


def test_the_models_library_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, cellwright.cli.main, cellwright.session; print('openai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
