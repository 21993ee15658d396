"""What is said of a cell that did not end by itself: one sentence, true at the time when it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.long_sandbox import LongSandbox
from tests.waiting import GUARD_S, until

from cellwright import executor
from cellwright.record.reader import read_run
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, ClosedEvent, Event, HeartbeatEvent, Output, OutputEvent, PieceEvent, Text

KEPT = "The cell was interrupted on request. The Python kernel goes on: variables set so far are kept."
CLOSED = (
    "The session was closed while this cell ran, and its sandbox ended with it: variables, files and windows are gone."
)
NOT_RUN = "The session was closed before this cell was executed. Nothing of it ran."


class Polite(LongSandbox):
    """Tells what is left, as the real kernel host does."""

    async def run(self) -> AsyncIterator[Event]:
        self.is_running = True
        self.begun.set()
        await self.over.wait()
        self.is_running = False
        for text in ("half", KEPT):
            yield OutputEvent(output=Text(text=text, source="log" if text == "half" else "notice"))
        yield OutputEvent(output=Text(text="Memory was short.", source="notice"))
        yield ClosedEvent(status="interrupted", rung="interrupt", last_word=KEPT)


class Deaf(LongSandbox):
    """Goes on, whatever it is told."""

    async def run(self) -> AsyncIterator[Event]:
        self.is_running = True
        yield PieceEvent(text="half", source="stdout")
        while True:
            yield HeartbeatEvent()
            await asyncio.sleep(0.01)


class OneBackend:
    name = "one"

    def __init__(self, kind: type[LongSandbox]) -> None:
        self.kind = kind
        self.made: list[LongSandbox] = []

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        del egress_socket
        self.made.append(self.kind(spec))
        return self.made[-1]


def texts(outputs: tuple[Output, ...]) -> list[str]:
    return [output.text for output in outputs if isinstance(output, Text)]


@pytest.mark.parametrize("kind", [Polite, Deaf])
async def test_a_cell_whose_session_is_closed_is_told_of_that_alone(
    kind: type[LongSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LADDER_S", 0.05)
    monkeypatch.setattr(executor, "GRACE_S", 0.05)
    backend = OneBackend(kind)
    async with asyncio.timeout(GUARD_S):
        async with Session.open(backend=backend) as session:
            running = asyncio.ensure_future(session.execute("long"))
            await until(lambda: backend.made[0].is_running)
        cell = await running
    assert texts(cell.outputs) == (["half", "Memory was short.", CLOSED] if kind is Polite else ["half", CLOSED])
    (recorded,) = read_run(session.run_dir).cells
    assert texts(recorded.outputs) == texts(cell.outputs)


async def test_a_cell_that_is_interrupted_while_its_session_goes_on_is_told_what_is_left() -> None:
    backend = OneBackend(Polite)
    async with Session.open(backend=backend) as session:
        running = asyncio.ensure_future(session.execute("long"))
        await until(lambda: backend.made[0].is_running)
        await session.interrupt()
        assert texts((await running).outputs) == ["half", KEPT, "Memory was short."]


async def test_a_cell_that_is_interrupted_before_it_is_posted_never_is() -> None:
    backend = OneBackend(LongSandbox)
    async with Session.open(backend=backend) as session:
        running = asyncio.ensure_future(session.execute("x = 1"))
        await asyncio.sleep(0)  # until it is called
        await session.interrupt()
        cell = await running
        assert (cell.status, texts(cell.outputs)) == (
            "interrupted",
            ["The cell was interrupted on request before it was executed. Nothing of it ran."],
        )
        assert backend.made[0].deadlines == []
        assert (await session.execute("log('x' in globals())")).text == "False"


async def test_a_cell_whose_session_is_closed_before_it_is_posted_is_told_that_nothing_ran() -> None:
    backend = OneBackend(LongSandbox)
    async with Session.open(backend=backend) as session:
        running: asyncio.Future[Cell] = asyncio.ensure_future(session.execute("x = 1"))
        await asyncio.sleep(0)  # until it is called
    assert texts((await running).outputs) == [NOT_RUN]
    assert backend.made[0].deadlines == []
