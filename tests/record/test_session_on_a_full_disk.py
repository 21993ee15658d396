"""A session whose run can no longer be written: each call says so, no record is half, and with room it goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cellwright.record.reader import read_run
from cellwright.record.verdict import verify

CODE = """
import asyncio, resource, signal, sys
from pathlib import Path
from cellwright.errors import DiskFull
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend

async def main():
    async with Session.open(backend=FakeBackend(), runs=Path(sys.argv[1])) as session:
        await session.execute("x = 1")
        size, limits = (session.run_dir / "journal.jsonl").stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
        for _ in range(2):
            try:
                await session.execute("x = 2")
            except DiskFull as error:
                print(str(error).partition(":")[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        print((await session.execute("log(x)")).text)
        print(session.run_dir)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_cell_that_cannot_be_recorded_does_not_run_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stderr == ""
    *refused, x, folder = done.stdout.splitlines()
    assert (refused, x) == (["journal.jsonl could not be written"] * 2, "1")
    run = read_run(Path(folder))
    assert [(cell.code, cell.status) for cell in run.cells] == [("x = 1", "ok"), ("log(x)", "ok")]
    assert (run.problems, verify(Path(folder)).status) == ((), "whole")
