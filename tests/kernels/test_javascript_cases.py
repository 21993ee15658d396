"""Every line of `cells/javascript.jsonl`: JavaScript cells, and exactly what they say.

All run in one kernel, in the order of the table. `python -m tests.kernels.test_javascript_cases` writes what they say now.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernels.playing_cells import Case, kernels_in, play_case, read_table, refresh

from cellwright_kernel.kernels import Kernels

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

TABLE = Path(__file__).parent / "cells" / "javascript.jsonl"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(folder: Path) -> AsyncIterator[Kernels]:
    async with kernels_in(folder) as kernels:
        yield kernels


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short one: Node breaks the lines of what it shows by their length, paths of the home among them."""
    with tempfile.TemporaryDirectory(prefix="js.", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in read_table(TABLE)])
async def test_case(case: Case, kernels: Kernels, folder: Path) -> None:
    assert await play_case(kernels, "javascript", case, folder / "home") == case


async def test_the_table_has_enough_cells() -> None:
    assert sum(len(case["cells"]) for case in read_table(TABLE)) >= 60


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(refresh(TABLE, "javascript", Path(folder)))
