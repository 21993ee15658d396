"""An exported run, executed as a person would who has `cellwright[kernel]`, a desktop, and a home."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.waiting import GUARD_S

from cellwright.sandbox.runtime import chromium_path, kernel_folder, runtime_folder


@dataclass(frozen=True)
class Done:
    """What became of a script."""

    status: int
    said: str
    errors: str


def environment_of(folder: Path, display: str) -> dict[str, str]:
    """Make home and place of work in a folder; return the environment."""
    for name in ("home", "work"):
        (folder / name).mkdir()
    ours = {"DISPLAY": display, "HOME": str(folder / "home"), "PYTHONPATH": str(kernel_folder()), "LC_ALL": "C.UTF-8"}
    return {**os.environ, **ours, "CELLWRIGHT_CHROMIUM": str(chromium_path())}


async def executed_script(script: Path, environment: Mapping[str, str], *words: str) -> Done:
    """Run it under plain Python, in `work` beside it; with words on its command line."""
    pipe = asyncio.subprocess.PIPE
    command = (runtime_folder() / "bin" / "python", script, *words)
    process = await asyncio.create_subprocess_exec(
        *command, cwd=script.parent / "work", env=environment, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(2 * GUARD_S):
        said, errors = await process.communicate()
    return Done(process.returncode or 0, said.decode(), errors.decode())


async def executed_notebook(file: Path, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Execute it with a stock kernel, in `work` beside it; return it with its new outputs."""
    place = file.parent / "jupyter" / "kernels" / "python3"
    place.mkdir(parents=True)
    command = [str(runtime_folder() / "bin" / "python"), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "Python 3", "language": "python"}))
    for name in ("JUPYTER_PATH", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(file.parent / "jupyter"))
    book = nbformat.read(file, as_version=4)
    client = NotebookClient(book, timeout=GUARD_S, resources={"metadata": {"path": str(file.parent / "work")}})
    async with client.async_setup_kernel(env=dict(environment)):
        for number, cell in enumerate(book.cells):
            await client.async_execute_cell(cell, number)
    return book
