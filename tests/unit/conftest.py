"""Runs of unit tests lie in memory: that they are brought to the disk is most of what such a test waits for.

Each new run is fsynced four times, 0.4 ms each on an idle disk and much more on one that others use too. What has to
be on a real disk is in `tests/record`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory, or where there is none on the disk."""
    if not MEMORY.is_dir():
        yield tmp_path_factory.getbasetemp()
        return
    with tempfile.TemporaryDirectory(prefix="cellwright-tests-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def no_run_is_left(clean_environment: Path) -> Iterator[None]:
    """Memory is short: in a container it may be 64 MiB."""
    yield
    shutil.rmtree(clean_environment, ignore_errors=True)
