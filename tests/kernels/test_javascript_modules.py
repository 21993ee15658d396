"""Modules whose loading an interrupt has ended half way: the next `require` or `import` loads them anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.kernels.playing_cells import Said, kernels_in, play
from tests.waiting import until

from cellwright_kernel.kernels import Kernels

pytestmark = pytest.mark.slow

SLOW = (
    "globalThis.times = (globalThis.times ?? 0) + 1; require('fs').writeFileSync('busy', ''); if (times < 2) for (;;);"
)
"""Never ends the first time, and lets a test see that it has come so far."""
SLOW_CJS = f"exports.a = 1; {SLOW} exports.b = 2"
SLOW_MJS = f"export const a = 1; const {{ require }} = globalThis; {SLOW} export const b = 2"
WAITING_MJS = SLOW_MJS.replace("for (;;);", "await new Promise(() => {});")
NAMES = "Object.keys(it).filter((name) => !['default', 'module.exports'].includes(name)).join()"


class Cells:
    """Executes JavaScript cells, numbered from 1, in a home of its own."""

    def __init__(self, kernels: Kernels, home: Path) -> None:
        self._kernels = kernels
        self._number = 0
        self._busy = home / "busy"
        self.home = home
        self.status = ""

    async def run(self, code: str, deadline_s: float = 10.0) -> list[Said]:
        self._number += 1
        says, closed = await play(self._kernels, "javascript", code, self._number, deadline_s)
        self.status = closed.status
        return says

    async def interrupted(self, code: str) -> None:
        """Execute code until it has written `busy`, and interrupt it there."""
        running = asyncio.create_task(self.run(code))
        await until(self._busy.exists)
        assert self._kernels.interrupt("javascript")
        await running
        assert self.status == "interrupted"


@pytest_asyncio.fixture
async def cells(tmp_path: Path) -> AsyncIterator[Cells]:
    async with kernels_in(tmp_path) as kernels:
        await kernels.start("javascript")
        yield Cells(kernels, tmp_path / "home")


@pytest.mark.parametrize(
    ("name", "text", "first", "then"),
    [
        ("slow.cjs", SLOW_CJS, "require('./slow.cjs')", "require('./slow.cjs')"),
        ("slow.cjs", SLOW_CJS, "require('./over.cjs')", "require('./over.cjs').slow"),
        ("slow.cjs", SLOW_CJS, "require('./over.cjs')", "require('./slow.cjs')"),
        ("slow.cjs", SLOW_CJS, "await import('./slow.cjs')", "await import('./slow.cjs')"),
        ("slow.cjs", SLOW_CJS, "await import('./slow.cjs')", "require('./slow.cjs')"),
        ("slow.mjs", SLOW_MJS, "await import('./slow.mjs')", "await import('./slow.mjs')"),
        ("slow.mjs", SLOW_MJS, "await import('./over.mjs')", "await import('./over.mjs')"),
        ("slow.mjs", SLOW_MJS, "await import('./over.mjs')", "await import('./slow.mjs')"),
        ("slow.mjs", SLOW_MJS, "require('./slow.mjs')", "require('./slow.mjs')"),
        ("slow.mjs", SLOW_MJS, "require('./slow.mjs')", "await import('./slow.mjs')"),
        ("slow.mjs", WAITING_MJS, "await import('./slow.mjs')", "await import('./slow.mjs')"),
        ("slow.mjs", WAITING_MJS, "await import('./over.mjs')", "await import('./over.mjs')"),
    ],
)
async def test_a_module_that_was_stopped_half_way_is_loaded_anew(
    cells: Cells, name: str, text: str, first: str, then: str
) -> None:
    (cells.home / name).write_text(text)
    (cells.home / "over.cjs").write_text("exports.slow = require('./slow.cjs')")
    (cells.home / "over.mjs").write_text("export * from './slow.mjs'")
    await cells.interrupted(first)
    assert await cells.run(f"{{ const it = {then}; console.log({NAMES}, times) }}") == [{"log": "a,b 2"}]


async def test_modules_that_were_loaded_whole_stay_the_same(cells: Cells) -> None:
    for ending in ("cjs", "mjs"):
        export = "exports.made = {}" if ending == "cjs" else "await null; export const made = {}"
        (cells.home / f"whole.{ending}").write_text(export)
    (cells.home / "slow.cjs").write_text(SLOW_CJS)
    await cells.interrupted(
        "var made = [require('./whole.cjs').made, (await import('./whole.mjs')).made]; require('./slow.cjs')"
    )
    (same,) = await cells.run(
        "[require('./whole.cjs').made === made[0], (await import('./whole.mjs')).made === made[1]]"
    )
    assert same == {"result": "[ true, true ]"}


async def test_a_module_that_an_earlier_cell_still_loads_stays_so(cells: Cells) -> None:
    (cells.home / "server.mjs").write_text("await new Promise((go) => { globalThis.go = go }); export const up = true")
    (cells.home / "slow.cjs").write_text(SLOW_CJS)
    await cells.run("var server = import('./server.mjs'); undefined")
    await cells.interrupted("require('./slow.cjs')")
    assert await cells.run("go(); (await import('./server.mjs')) === (await server)") == [{"result": "true"}]


async def test_playwright_that_was_stopped_while_it_was_loaded_is_loaded_anew(cells: Cells) -> None:
    await cells.interrupted(
        "require('fs').writeFileSync('busy', ''); require(require.resolve('playwright')); for (;;);"
    )
    says = await cells.run(
        "const { chromium, errors } = require('playwright'); [typeof chromium.connectOverCDP, typeof errors.TimeoutError]"
    )
    assert says == [{"result": "[ 'function', 'function' ]"}]
