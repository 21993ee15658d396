"""The pool over fake sandboxes: who gets a place, who keeps it, and that every place is free in the end."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest
from tests.waiting import until

from cellwright import pool as pools
from cellwright.errors import AtCapacity, SandboxUnavailable
from cellwright.pool import Pool
from cellwright.record.reader import read_run
from cellwright.record.records import SessionClosed
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


class _Slow(FakeBackend):
    """Its sandboxes end when they may."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ending = asyncio.Event()
        self.may_end = asyncio.Event()

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        sandbox = await super().start(spec, egress_socket=egress_socket)
        close = sandbox.close

        async def slowly() -> None:
            self.is_ending.set()
            await self.may_end.wait()
            await close()

        sandbox.close = slowly  # type: ignore[method-assign]
        return sandbox


class _Broken(FakeBackend):
    """Starts nothing, until it is mended."""

    is_mended = False

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        if not self.is_mended:
            raise SandboxUnavailable("A start-up file is broken.")
        return await super().start(spec, egress_socket=egress_socket)


async def test_a_session_that_cannot_be_opened_leaves_its_place() -> None:
    backend = _Broken()
    async with Pool(Spec(), capacity=1, backend=backend) as pool:
        for session_id in ("a", "b"):
            with pytest.raises(SandboxUnavailable, match="start-up file"):
                await pool.session(session_id, driver="guide")
        await until(lambda: not pool._held)
        backend.is_mended = True
        session = await pool.session("c", driver="guide")
        assert (await session.execute("log(1)")).text == "1"


@pytest.mark.slow
async def test_every_idle_session_is_closed_in_the_end() -> None:
    """Also when it was used just when it was to be closed, over and over."""
    async with Pool(Spec(), capacity=3, idle_s=0.01, backend=FakeBackend()) as pool:
        for _ in range(40):
            session = await pool.session("a", driver="guide")
            assert (await session.execute("log(1)")).text == "1"
            await until(partial(_is_due, session))
        await until(lambda: not pool._held)


def _is_due(session: Session) -> bool:
    return session.idle_s >= 0.01


async def test_a_session_that_is_closing_is_waited_for_and_opened_again() -> None:
    backend = _Slow()
    async with Pool(Spec(), backend=backend) as pool:
        first = await pool.session("a", driver="guide")
        closing = asyncio.ensure_future(pool.close("a"))
        await backend.is_ending.wait()
        opening = asyncio.ensure_future(pool.session("a", driver="guide"))
        await asyncio.sleep(0)  # it begins
        backend.may_end.set()
        second = await opening
        await closing
        assert second is not first
        assert (await second.execute("log(1)")).text == "1"


async def test_a_place_that_two_wait_for_is_given_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "YIELD_S", 0.02)
    backend = _Slow()
    async with Pool(Spec(), capacity=1, backend=backend) as pool:
        first = await pool.session("a", driver="guide")
        await until(lambda: first.idle_s > 0.02)
        opening = [asyncio.ensure_future(pool.session(name, driver="guide")) for name in ("b", "c")]
        await backend.is_ending.wait()  # both wait for it: they began before it did
        backend.may_end.set()
        found = await asyncio.gather(*opening, return_exceptions=True)
        assert [type(one) for one in found].count(AtCapacity) == 1
        assert len(pool.sessions()) == 1


async def test_a_run_says_why_its_session_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "YIELD_S", 0.0)
    async with Pool(Spec(), capacity=1, backend=FakeBackend()) as pool:
        needed = await pool.session("its place was needed", driver="guide")
        asked = await pool.session("somebody asked", driver="guide")
        await pool.close("somebody asked")
        stopped = await pool.session("the service was stopped", driver="guide")
    async with Pool(Spec(), idle_s=0.02, backend=FakeBackend()) as pool:
        idle = await pool.session("idle", driver="guide")
        await until(lambda: not pool._held)
    assert [_why_closed(session) for session in (needed, asked, idle, stopped)] == [
        "It had been idle for 0 s, and its place was needed.",
        None,
        "It had been idle for 0 s.",
        "The service was stopped.",
    ]


def _why_closed(session: Session) -> str | None:
    (closed,) = [record for record in read_run(session.run_dir).records if isinstance(record, SessionClosed)]
    return closed.reason


async def test_each_session_leaves_its_files_in_a_folder_of_its_own(tmp_path: Path) -> None:
    async with Pool(Spec(out=tmp_path / "out"), backend=FakeBackend(), runs=tmp_path / "runs") as pool:
        for session_id in ("one", "two"):
            session = await pool.session(session_id, driver="guide")
            await session.write_file("result.txt", session_id.encode())
    left = {path.parent.name: path.read_text() for path in (tmp_path / "out").rglob("result.txt")}
    assert left == {"one": "one", "two": "two"}
