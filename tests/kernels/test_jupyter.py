"""Both kernels pass Jupyter's own conformance tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[2]


def test_both_conform() -> None:
    """Each in a process of its own, beside the other."""
    with ExitStack() as stack:
        running = [stack.enter_context(conforming(language)) for language in ("Python", "JavaScript")]
        for process in running:
            told = process.communicate(timeout=120)[1]
            assert process.returncode == 0, told


@contextmanager
def conforming(language: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "unittest", f"tests.kernels.jupyter_conformance.{language}"]
    with subprocess.Popen(command, cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
