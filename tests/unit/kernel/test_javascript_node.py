"""The Node process behind the JavaScript kernel: asked, interrupted, ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from cellwright_kernel import processes
from cellwright_kernel.javascript.node import Node


class Heard:
    """Stands for the publisher and keeps what it is told."""

    latest = 1

    def __init__(self) -> None:
        self.said: list[Any] = []

    def take(self, message: dict[str, Any]) -> None:
        self.said.append(message.get("text", message["type"]))

    def write(self, _serial: int, name: str, text: str) -> None:
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
    async with asyncio.timeout(5):
        await node.ended.wait()


def run(node: Node, serial: int, code: str) -> asyncio.Task[Any]:
    return asyncio.ensure_future(node.ask({"do": "run", "cell": serial, "number": serial, "code": code}))


async def test_a_cell_is_answered(node: tuple[Node, Heard]) -> None:
    assert await run(node[0], 1, "6 * 7") == {"status": "ok"}
    assert node[1].said == ["42"]


async def test_what_a_child_wrote_stands_before_what_follows(node: tuple[Node, Heard]) -> None:
    code = "console.log(1); require('child_process').execSync('echo 2', { stdio: 'inherit' }); console.log(3)"
    await run(node[0], 1, code)
    assert node[1].said == ["1", ("stdout", "2\n"), "3"]


async def test_an_interrupt_for_a_cell_that_is_over_hits_nobody(node: tuple[Node, Heard]) -> None:
    await run(node[0], 1, "1")
    node[0].interrupt(1)
    assert await run(node[0], 2, "2") == {"status": "ok"}


async def test_an_interrupt_that_overtakes_its_cell_ends_it_unexecuted(node: tuple[Node, Heard]) -> None:
    await run(node[0], 1, "setTimeout(() => { const end = Date.now() + 300; while (Date.now() < end); }, 0); undefined")
    asked = run(node[0], 2, "console.log('never')")
    await asyncio.sleep(0.05)
    node[0].interrupt(2)
    answer = await asked
    assert (answer["status"], answer["ename"]) == ("error", "Interrupted")
    assert "never" not in node[1].said


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
    async with asyncio.timeout(5):
        await node.ended.wait()
