"""Cells of a table are played in a real kernel: what they say, and how they end.

Flows in: a table, one case a line: `title`, and `cells`, each with `code`, `says` and `status`. Flows out: what the cells
of a case really said, in the same form. Decided here: that form. A text is {source: text}; a picture is
{"image": "image/png 2x2"}; late output has "of", the cell's place in its case, which is also its number. What differs from
one run to the next is left out: the home is `~`, an address in memory `0x...`. Of a very long text its ends stand in the
table, what it says of its own cutting, and the hash of the whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cellwright_kernel.kernel_process import COMMANDS
from cellwright_kernel.kernels import Kernels
from cellwright_kernel.wire import ClosedEvent, Event, Execute, Image, Language, Output, gather, in_order

DEADLINE_S = 20.0
"""A cell that is meant to run into its deadline has one of its own."""

LONG_CHARS = 3000
_ADDRESS = re.compile(r"\b0x[0-9a-f]{9,16}\b")

Commands = Mapping[Language, Sequence[str]]
Said = dict[str, Any]
Case = dict[str, Any]


@asynccontextmanager
async def kernels_in(
    folder: Path, environment: Mapping[str, str] | None = None, commands: Commands = COMMANDS
) -> AsyncIterator[Kernels]:
    """Kernels without a desktop, their home in `folder`; what is not there yet starts with the first cell."""
    home = folder / "home"
    home.mkdir(parents=True)
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **(environment or {})}
    async with Kernels(str(home), folder / "kernels", lambda: given, commands=commands) as kernels:
        yield kernels


async def play(
    kernels: Kernels, language: Language, code: str, number: int, deadline_s: float = DEADLINE_S
) -> tuple[list[Said], ClosedEvent]:
    """Execute one cell; return what it said and how it was closed."""
    cell = kernels.execute(Execute(number=number, language=language, code=code, deadline_s=deadline_s))
    outputs: dict[int, Output] = {}
    last: Event | None = None
    async for batch in cell.events():
        for event in batch:
            gather(outputs, event)
            last = event
    assert isinstance(last, ClosedEvent)
    return [said(output) for output in in_order(outputs)], last


def said(output: Output) -> Said:
    """One output in the form of the table."""
    found: Said
    if isinstance(output, Image):
        found = {"image": f"{output.media_type} {output.width}x{output.height}"}
    else:
        found = {output.source: output.text}
    return found if output.of_cell is None else {**found, "of": output.of_cell}


async def play_case(kernels: Kernels, language: Language, case: Case, home: Path) -> Case:
    """Execute a case's cells, numbered from 1; return the case as it went, with `~` for the home."""
    played = []
    for number, cell in enumerate(case["cells"], start=1):
        says, closed = await play(kernels, language, cell["code"], number, cell.get("deadline_s", DEADLINE_S))
        played.append({**cell, "says": _lasting(says, home), "status": closed.status})
    return {**case, "cells": played}


def _lasting(says: list[Said], home: Path) -> list[Said]:
    return [
        {key: _lasting_text(value, home) if isinstance(value, str) else value for key, value in one.items()}
        for one in says
    ]


def _lasting_text(text: str, home: Path) -> str:
    text = _ADDRESS.sub("0x...", text.replace(str(home), "~"))
    if len(text) <= LONG_CHARS:
        return text
    marks = [line for line in text.splitlines() if line.startswith("[... ")]
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return "\n".join([text[:100], *marks, f"<{len(text)} characters, SHA-256 {digest}>", text[-100:]])


def read_table(path: Path) -> list[Case]:
    """Return the cases of a table."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_table(path: Path, cases: list[Case]) -> None:
    """Write a table: for `refresh`, whose result is reviewed as a diff."""
    path.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))


async def refresh(path: Path, language: Language, folder: Path, commands: Commands = COMMANDS) -> None:
    """Write what every case says now in place of what it should say."""
    async with kernels_in(folder, commands=commands) as kernels:
        write_table(path, [await play_case(kernels, language, case, folder / "home") for case in read_table(path)])
