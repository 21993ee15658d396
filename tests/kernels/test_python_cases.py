"""Every line of `cells/python*.jsonl`: Python cells, and exactly what they say.

They are played in the interpreter of the sandbox's runtime, which has what a model expects to find; those of a table in one
kernel, in its order, though no case counts on another. `python -m tests.kernels.test_python_cases` writes what they say now.

How a traceback underlines its line differs between versions of Python: on another than the tables were written with, lines
that only underline are not compared. What Python itself says in other words there is in `cells/on_python_*.jsonl`.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernels.playing_cells import Case, Commands, kernels_in, play_case, read_table, refresh, write_table
from tests.python_kernel import without_underlines

from cellwright.sandbox.runtime import kernel_folder, runtime_folder
from cellwright_kernel.kernel_process import COMMANDS
from cellwright_kernel.kernels import Kernels

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CELLS = Path(__file__).parent / "cells"
TABLES = sorted(CELLS.glob("python*.jsonl"))
WRITTEN_WITH = "3.11"


def commands() -> Commands:
    """Start kernels in the sandbox's runtime, which does not have them installed but bound."""
    python = runtime_folder() / "bin" / "python"
    return {"python": ("env", f"PYTHONPATH={kernel_folder()}", str(python), *COMMANDS["python"][1:])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python")


def runtime_version() -> str:
    """Minor version of the runtime's Python."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        [runtime_folder() / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture(scope="module")
def version() -> str:
    return runtime_version()


def other_words(version: str) -> Path:
    return CELLS / f"on_python_{version}.jsonl"


@pytest.fixture(scope="module")
def in_other_words(version: str) -> dict[str, Case]:
    """The cases that this version of Python answers in words of its own, by title."""
    return {case["title"]: case for case in read_table(other_words(version))} if version != WRITTEN_WITH else {}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kernels(folder: Path) -> AsyncIterator[Kernels]:
    async with kernels_in(folder, commands=commands()) as kernels:
        yield kernels


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["title"]) for table in TABLES for case in read_table(table)]
)
async def test_case(case: Case, kernels: Kernels, folder: Path, version: str, in_other_words: dict[str, Case]) -> None:
    played = await play_case(kernels, "python", case, folder / "home")
    case = in_other_words.get(case["title"], case)
    if version != WRITTEN_WITH:
        played, case = _without_underlines(played), _without_underlines(case)
    assert played == case


async def test_the_tables_have_enough_cells() -> None:
    assert sum(len(case["cells"]) for table in TABLES for case in read_table(table)) >= 60


def _without_underlines(case: Case) -> Case:
    cells = [
        {
            **cell,
            "says": [
                {key: without_underlines(value) if key == "error" else value for key, value in said.items()}
                for said in cell["says"]
            ],
        }
        for cell in case["cells"]
    ]
    return {**case, "cells": cells}


async def write_other_words(version: str, folder: Path) -> None:
    """Write the cases that a version of Python answers otherwise than in the tables, lines that underline apart."""
    cases = [case for table in TABLES for case in read_table(table)]
    async with kernels_in(folder, commands=commands()) as kernels:
        played = [await play_case(kernels, "python", case, folder / "home") for case in cases]
    pairs = zip(map(_without_underlines, played), cases, strict=True)
    write_table(other_words(version), [new for new, case in pairs if new != _without_underlines(case)])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        if (found := runtime_version()) != WRITTEN_WITH:
            asyncio.run(write_other_words(found, Path(place)))
        else:
            for number, table in enumerate(TABLES):
                asyncio.run(refresh(table, "python", Path(place) / str(number), commands()))
