"""Cells that replace, delete or declare what JavaScript has: those after them are answered as ever, by the same kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kernels.playing_cells import Said, kernels_in, play

pytestmark = pytest.mark.slow

REPLACING = [
    "globalThis.setImmediate = globalThis.setTimeout = globalThis.clearTimeout = () => {}",
    "globalThis.Date = class { static now() { return 0 } }",
    "delete Array.prototype.map",
    "Array.prototype.filter = Array.prototype.map = Array.prototype.find = () => { throw 5 }",
    "Promise.prototype.then = Promise.all = Promise.allSettled = () => {}",
    "JSON.parse = JSON.stringify = () => {}",
    "Array.prototype.toJSON = () => 'mine'",
    "Object.prototype.value = Object.prototype.failure = 5",
    "Object.defineProperty(Object.prototype, 'interrupted', { get: () => true, set() {}, configurable: true })",
    "Object.defineProperty(Object.prototype, 'outcome', { get: () => 5, set() {}, configurable: true })",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => {}",
    "Atomics.load = Atomics.store = () => {}",
    "Reflect.apply = Object.keys = () => { throw 5 }",
    "require('fs').writeSync = Buffer.from = () => { throw 5 }",
    "require('inspector').Session.prototype.post = () => { throw 5 }",
    "class Map {}; class Set {}; const process = 5, Error = 5, Object = 5, Array = 5",
    "process.removeAllListeners()",
    "process.removeAllListeners('uncaughtException')",
    "for (const one of process.listeners('uncaughtException')) process.off('uncaughtException', one)",
]
THROWING = "require('timers').setTimeout(() => { throw 'late' }, 1); await new Promise((go) => require('timers').setTimeout(go, 50))"


@pytest.mark.parametrize("code", REPLACING)
async def test_the_cells_after_it_are_answered(code: str, tmp_path: Path) -> None:
    async with kernels_in(tmp_path) as kernels:
        await kernels.start("javascript")

        async def run(number: int, code: str) -> tuple[list[Said], str, int]:
            says, closed = await play(kernels, "javascript", code, number, 5.0)
            return says, closed.status, closed.kernel_generation

        assert await run(1, f"{code}; 1") == ([{"result": "1"}], "ok", 1)
        assert await run(2, "console.log('said'); 1 + 1") == ([{"log": "said"}, {"result": "2"}], "ok", 1)
        says, *how = await run(3, "null.x")
        assert "TypeError: Cannot read properties of null (reading 'x')" in says[0]["error"]
        assert how == ["error", 1]
        says, *how = await run(4, THROWING)
        assert how == ["ok", 1]
        assert says[0] == {"stderr": "Uncaught exception (the kernel goes on):\nUncaught 'late'\n"}


async def test_where_nothing_can_be_told_the_cell_says_so(tmp_path: Path) -> None:
    async with kernels_in(tmp_path) as kernels:
        await kernels.start("javascript")
        says, closed = await play(
            kernels, "javascript", "Array.prototype[Symbol.iterator] = () => { throw 5 }; 1", 1, 5.0
        )
        assert (closed.status, closed.kernel_generation) == ("error", 1)
        assert says[0]["error"].startswith("Error: Something was thrown that cannot be told.")
