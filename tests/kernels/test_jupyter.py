"""Both kernels pass Jupyter's own conformance tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("language", ["Python", "JavaScript"])
def test_conforms(language: str) -> None:
    command = [sys.executable, "-m", "unittest", f"tests.kernels.jupyter_conformance.{language}"]
    found = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
