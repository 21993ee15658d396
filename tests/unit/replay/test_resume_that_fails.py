"""A resume that comes to nothing leaves the run as it was, and never brings half of it back unsaid."""

from __future__ import annotations

import asyncio
import builtins
from pathlib import Path

import pytest

from cellwright.errors import SandboxLost, SandboxUnavailable, UsageError
from cellwright.record import read_run, verify
from cellwright.record.records import CellRebuilt, Note
from cellwright.record.run_info import RunEnd
from cellwright.replay.plan import plan_for
from cellwright.replay.resume import Given, resume
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


class Dying:
    """What a cell of a fake sandbox calls so that its sandbox ends as soon as the cell has."""

    def __init__(self) -> None:
        self.backend: FakeBackend | None = None

    def soon(self) -> None:
        if self.backend is not None:
            backend, self.backend = self.backend, None
            asyncio.get_running_loop().call_soon(backend.made[0].lose)


@pytest.mark.parametrize("then", ["cell", "write", "delete", "restart", "nothing"])
async def test_sandbox_that_ends_between_two_rebuilt_cells_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(builtins, "dying", dying := Dying(), raising=False)
    async with Session.open(backend=FakeBackend()) as session:
        await session.write_file("one.txt", b"1")
        await session.execute("dying.soon()")
        match then:
            case "cell":
                await session.execute("b = 2")
            case "write":
                await session.write_file("two.txt", b"2")
            case "delete":
                await session.delete_file("one.txt")
            case "restart":
                await session.restart()
            case _:
                pass
        session.conclude("failed", reason="It was stuck.")
    backend = dying.backend = FakeBackend()
    with pytest.raises(SandboxLost, match=r"What was brought back is gone again; the run can be resumed as before\."):
        async with resume(session.run_dir, plan_for(read_run(session.run_dir), "safe"), Given(), backend=backend):
            pass
    assert len(backend.made) == 1
    end = read_run(session.run_dir).end
    assert end is not None
    assert (end.status, end.reason) == ("failed", "It was stuck.")
    assert verify(session.run_dir).status == "whole"
    assert not [
        r for r in read_run(session.run_dir).records if isinstance(r, Note) and r.topic in {"sandbox", "resumed"}
    ]


class Unavailable(FakeBackend):
    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:  # noqa: ARG002 - none is made
        raise SandboxUnavailable


@pytest.mark.parametrize("status", ["budget", None])
async def test_resume_that_fails_leaves_the_end_that_the_run_had(status: RunEnd | None) -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
        session.conclude(status, reason="It was spent.", summary="Half.")
    before = (session.run_dir / "journal.jsonl").read_bytes()
    plan = plan_for(read_run(session.run_dir), "safe")
    with pytest.raises(SandboxUnavailable):
        async with resume(session.run_dir, plan, Given(), backend=Unavailable()):
            pass
    assert (session.run_dir / "journal.jsonl").read_bytes() == before

    def stops(_: CellRebuilt) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        async with resume(session.run_dir, plan, Given(), on_cell=stops, backend=FakeBackend()):
            pass
    run = read_run(session.run_dir)
    assert run.status == (status or "open")
    assert run.end is None or (run.end.reason, run.end.summary) == ("It was spent.", "Half.")


async def test_run_that_was_brought_back_ends_as_any_other() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        session.conclude("budget", reason="It was spent.")
    plan = plan_for(read_run(session.run_dir), "safe")
    with pytest.raises(ValueError, match="mine"):
        async with resume(session.run_dir, plan, Given(), backend=FakeBackend()):
            raise ValueError("mine")
    end = read_run(session.run_dir).end
    assert end is not None
    assert (end.status, end.reason) == ("failed", "mine")


async def test_plan_of_a_run_that_has_gone_on_since_is_refused() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
        session.conclude("failed")
    stale = plan_for(read_run(session.run_dir), "safe")
    async with resume(session.run_dir, stale, Given(), backend=FakeBackend()) as resumed:
        await resumed.session.execute("a = 2")
        resumed.session.conclude("failed")
    before = (session.run_dir / "journal.jsonl").read_bytes()
    backend = FakeBackend()
    with pytest.raises(UsageError, match=r"has gone on since it was looked at.*Nothing was started\."):
        async with resume(session.run_dir, stale, Given(), backend=backend):
            pass
    assert (backend.made, (session.run_dir / "journal.jsonl").read_bytes()) == ([], before)
    assert read_run(session.run_dir).status == "failed"


async def test_plan_is_of_the_run_also_where_a_torn_end_is_cut_when_it_is_opened() -> None:
    async with Session.open(backend=FakeBackend()) as session:
        await session.execute("a = 1")
        session.conclude(None)
    with (session.run_dir / "journal.jsonl").open("ab") as file:
        file.write(b'{"type":"cell_op')
    plan = plan_for(read_run(session.run_dir), "safe")
    async with resume(session.run_dir, plan, Given(), backend=FakeBackend()) as resumed:
        cell = await resumed.session.execute("log(a)")
    assert cell.outputs[0].text == "1"  # type: ignore[union-attr]
