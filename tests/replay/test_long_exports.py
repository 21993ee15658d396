"""A run of 5,000 cells is exported, shown and verified in as little memory as another; in processes of their own, to see their peak."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from tests.unit.replay.conftest import add_cell, make_run

from cellwright.record import Journal
from cellwright.replay.export import Form
from cellwright_kernel.wire import Text

pytestmark = pytest.mark.slow

_SHOW = "show_run(read_run(run), console_for_output())"
_VERIFY = "assert verify(run).status == 'whole'"


@pytest.fixture(scope="module")
def long_run() -> Iterator[Path]:
    """5,000 cells and 2,000 screens of 50 kB, and in one cell a line of 50 MB."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_run(Path(folder), _fill).folder


@pytest.mark.parametrize("do", [*(f"export(read_run(run), '{form}', sink)" for form in get_args(Form)), _SHOW, _VERIFY])
def test_a_long_run_is_looked_at_in_bounded_memory(long_run: Path, do: str) -> None:
    code = (
        "import os, sys; from pathlib import Path; from cellwright.cli.show import console_for_output, show_run; "
        "from cellwright.record import read_run, verify; from cellwright.replay.export import export\n"
        f"run, sink, out = Path(sys.argv[1]), open(os.devnull, 'wb'), sys.stdout\nsys.stdout = open(os.devnull, 'w')\n{do}\n"
        # not getrusage: its figure is the greater one of this process and of the one that started it
        "status = dict(line.split(':') for line in Path('/proc/self/status').read_text().splitlines())\n"
        "print(int(status['VmHWM'].split()[0]) // 1024, file=out)"
    )
    command = [sys.executable, "-c", code, str(long_run)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 300


def _fill(journal: Journal) -> None:
    for number in range(1, 5001):
        add_cell(journal, f"x = {number}", Text(text="line\n" * 500, source="stdout"))
        if number % 5 < 2:
            journal.screenshot(b"\x89PNG\r\n\x1a\n" + number.to_bytes(4, "big") * 12_500, after_cell=number)
    add_cell(journal, "'" + "<" * 60_000 + "'", Text(text="\x1b<" * 25_000_000, source="stdout"))
