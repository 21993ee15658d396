"""The Node process behind the JavaScript kernel: asked, interrupted, ended."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.waiting import GUARD_S

from cellwright_kernel import processes
from cellwright_kernel.javascript.node import Node


def interrupted(how: str) -> dict[str, Any]:
    return {"status": "error", "ename": "Interrupted", "evalue": how, "traceback": [f"Interrupted: {how}"]}


OK = {"status": "ok"}
INTERRUPTED = interrupted("the cell was stopped")
INTERRUPTED_AFTER_ITS_END = interrupted("the code had run to its end; what ran after it was stopped")

INTERRUPTED_ANYWHERE = [  # code, and whether it may have ended before its interrupt
    ("for (;;);", False),
    ("await null; for (;;);", False),
    ("await new Promise((r) => setTimeout(r, 2)); for (;;);", False),
    ("await new Promise(() => {})", False),
    ("for (;;) await null", False),
    ("for (;;) await new Promise((r) => setImmediate(r))", False),
    ("for (;;) { try { for (;;); } catch {} finally { continue } }", False),
    ("process.nextTick(() => { for (;;); }); await new Promise(() => {})", False),
    ("setImmediate(() => { for (;;); }); await new Promise(() => {})", False),
    (f"/^(a+)+$/.test('{'a' * 40}b')", False),
    ("const end = Date.now() + 50; while (Date.now() < end);", True),
    ("setTimeout(() => { const end = Date.now() + 50; while (Date.now() < end); }, 0); undefined", True),
    ("1", True),
]


class Heard:
    """Stands for the publisher and keeps what it is told."""

    latest = 1

    def __init__(self) -> None:
        self.said: list[Any] = []
        self._more = asyncio.Event()

    async def hears(self, text: str) -> None:
        async with asyncio.timeout(GUARD_S):
            while text not in self.said:
                self._more.clear()
                await self._more.wait()

    def take(self, message: dict[str, Any]) -> None:
        self.said.append(message.get("text", message["type"]))
        self._more.set()

    def write(self, _serial: int, name: str, text: str, _missing: int = 0) -> None:
        self.said.append((name, text))

    def notice(self, sentence: str) -> None:
        self.said.append(sentence)

    def flush(self) -> None:
        """Nothing is gathered here."""


@pytest_asyncio.fixture
async def node() -> AsyncIterator[tuple[Node, Heard]]:
    heard = Heard()
    node = Node(heard)  # type: ignore[arg-type]
    await node.start()
    yield node, heard
    await node.end()
    async with asyncio.timeout(GUARD_S):
        await node.ended.wait()


def run(node: Node, serial: int, code: str) -> asyncio.Future[Any]:
    return node.ask({"do": "run", "cell": serial, "number": serial, "code": code})


async def within(answer: asyncio.Future[Any]) -> Any:
    async with asyncio.timeout(GUARD_S):
        return await answer


async def busy_after_its_cell(node: tuple[Node, Heard], folder: Path) -> None:
    """Return when a timer of cell 1, which was answered, computes without end."""
    go = folder / "go"
    loop = f"if (!require('fs').existsSync({str(go)!r})) return setTimeout(round, 1); console.log('busy'); for (;;);"
    await within(run(node[0], 1, f"setTimeout(function round() {{ {loop} }}, 1); undefined"))
    go.touch()
    await node[1].hears("busy")


async def test_it_shares_time_with_its_kernel(node: tuple[Node, Heard]) -> None:
    assert node[0]._process is not None
    process = node[0]._process.pid
    assert (os.getsid(process), os.getpgid(process)) == (os.getsid(0), process)


async def test_a_cell_is_answered(node: tuple[Node, Heard]) -> None:
    assert await run(node[0], 1, "6 * 7") == OK
    assert node[1].said == ["42"]


async def test_what_a_child_wrote_stands_before_what_follows(node: tuple[Node, Heard]) -> None:
    code = "console.log(1); require('child_process').execSync('echo 2', { stdio: 'inherit' }); console.log(3)"
    await run(node[0], 1, code)
    assert node[1].said == ["1", ("stdout", "2\n"), "3"]


async def test_an_interrupt_for_a_cell_that_is_over_hits_nobody(node: tuple[Node, Heard]) -> None:
    await run(node[0], 1, "1")
    node[0].interrupt(1)
    assert await run(node[0], 2, "2") == OK


async def test_an_interrupt_that_overtakes_its_cell_ends_it_unexecuted(
    node: tuple[Node, Heard], tmp_path: Path
) -> None:
    await busy_after_its_cell(node, tmp_path)
    asked = run(node[0], 2, "console.log('never')")
    await asyncio.sleep(0)  # it is sent
    node[0].interrupt(2)
    assert await within(asked) == INTERRUPTED
    assert node[1].said == ["busy", "error"]
    assert await within(run(node[0], 3, "'next'")) == OK


async def test_an_interrupt_that_comes_before_its_cell_ends_it_unexecuted(
    node: tuple[Node, Heard], tmp_path: Path
) -> None:
    await busy_after_its_cell(node, tmp_path)
    node[0].interrupt(2)
    assert await within(run(node[0], 2, "console.log('never')")) == INTERRUPTED
    assert node[1].said == ["busy", "error"]


async def test_a_first_cell_can_be_interrupted_as_soon_as_it_was_asked(node: tuple[Node, Heard]) -> None:
    asked = run(node[0], 1, "for (;;);")
    await asyncio.sleep(0)  # it is sent
    node[0].interrupt(1)
    assert await within(asked) == INTERRUPTED


async def test_a_value_is_kept_where_only_what_came_after_was_stopped(node: tuple[Node, Heard]) -> None:
    asked = run(node[0], 1, "setImmediate(() => { console.log('after'); for (;;); }); 'value'")
    await node[1].hears("after")
    node[0].interrupt(1)
    assert await within(asked) == INTERRUPTED_AFTER_ITS_END
    assert node[1].said == ["after", "'value'", "error"]


async def test_a_value_that_cannot_be_shown_to_its_end_is_shown_once(node: tuple[Node, Heard]) -> None:
    show = "[require('util').inspect.custom]() { console.log('showing'); for (;;); }"
    asked = run(node[0], 1, f"({{ {show} }})")
    await node[1].hears("showing")
    node[0].interrupt(1)
    assert await within(asked) == INTERRUPTED
    assert node[1].said == ["showing", "error"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_every_interrupt_at_any_moment_is_answered(node: tuple[Node, Heard], seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same moments in every run
    for serial in range(1, 40, 2):
        code, ends = chance.choice(INTERRUPTED_ANYWHERE)
        node[1].said.clear()
        asked = run(node[0], serial, code)
        await asyncio.sleep(chance.choice([0.0, 0.001, 0.01]) * chance.random())
        node[0].interrupt(serial)
        answer = await within(asked)
        assert answer == INTERRUPTED or (ends and answer in (OK, INTERRUPTED_AFTER_ITS_END))
        assert await within(run(node[0], serial + 1, f"'after ' + {serial}")) == OK
        assert node[1].said[-1] == f"'after {serial}'"


async def test_nobody_waits_for_a_node_that_has_ended(node: tuple[Node, Heard]) -> None:
    assert await run(node[0], 1, "process.kill(process.pid, 'SIGKILL')") is None
    assert await run(node[0], 2, "1") is None
    assert await node[0].end() == -signal.SIGKILL


async def test_its_end_is_the_end_of_its_process() -> None:
    node = Node(Heard())  # type: ignore[arg-type]
    await node.start()
    await run(node, 1, "1")
    assert node._process is not None
    assert await node.end() == -signal.SIGKILL
    assert not processes.is_alive(node._process.pid)
    async with asyncio.timeout(GUARD_S):
        await node.ended.wait()
