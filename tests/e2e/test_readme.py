"""The README's code is run, and prints what the README says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.slow
@pytest.mark.sandbox
def test_the_code_prints_what_stands_below_it() -> None:
    code, output = re.findall(r"^```(?:python|text)\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)[:2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == (output, 0), done.stderr


def test_every_file_that_the_readme_links_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert [link for link in links if not (README.parent / link).exists()] == []
