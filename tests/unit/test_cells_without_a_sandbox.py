"""A cell for which there is no sandbox has an end in the journal all the same, and left nothing to bring back."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from cellwright.errors import SandboxUnavailable, SessionClosed
from cellwright.record import read_run
from cellwright.replay.plan import plan_for
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


class Once(FakeBackend):
    """Makes one sandbox; the next one fails, or takes for ever."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__()
        self.hangs = hangs
        self.starting = asyncio.Event()

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        if not self.made:
            return await super().start(spec, egress_socket=egress_socket)
        self.starting.set()
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        raise SandboxUnavailable("There is no room.")


async def test_cell_for_which_no_sandbox_could_be_started_is_closed() -> None:
    backend = Once()
    async with Session.open(backend=backend) as session:
        await session.execute("a = 1")
        backend.made[0].lose()
        with pytest.raises(SandboxUnavailable):
            await session.execute("b = 2")
    closed = read_run(session.run_dir).stored_cells[1].closed
    assert closed is not None
    assert (closed.status, closed.posted, closed.outputs[0].text) == (  # type: ignore[union-attr]
        "error",
        False,
        "There was no sandbox for this cell, and nothing of it ran. There is no room.",
    )
    assert [one.cell.opened.number for one in plan_for(read_run(session.run_dir), "all").cells] == [1]


@pytest.mark.parametrize("closes", [True, False])
async def test_cell_that_is_left_while_its_sandbox_starts_is_closed(
    monkeypatch: pytest.MonkeyPatch, *, closes: bool
) -> None:
    monkeypatch.setattr("cellwright.executor.LADDER_S", 0.0)
    monkeypatch.setattr("cellwright.executor.GRACE_S", 0.01)
    backend = Once(hangs=True)
    async with Session.open(backend=backend) as session:
        backend.made[0].lose()
        executing = asyncio.ensure_future(session.execute("a = 1"))
        await backend.starting.wait()
        if not closes:
            executing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await executing
    await asyncio.gather(executing, return_exceptions=True)
    assert executing.cancelled() or isinstance(executing.exception(), SessionClosed)
    (cell,) = read_run(session.run_dir).stored_cells
    assert cell.closed is not None
    assert (cell.closed.status, cell.closed.posted) == ("interrupted", False)
    assert ("The session was closed before" in cell.closed.outputs[-1].text) is closes  # type: ignore[union-attr]
