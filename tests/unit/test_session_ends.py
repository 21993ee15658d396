"""Sessions that end, or are lost, at odd moments: in time, with a true record, with no sandbox left, others untouched."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest
from tests.waiting import GUARD_S

from cellwright import executor
from cellwright.errors import CellwrightError, DiskFull, SessionClosed
from cellwright.pool import Pool
from cellwright.record.reader import read_run
from cellwright.record.verdict import verify
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.sandbox.door import Door
from cellwright.session import Session
from cellwright.testing.fake_sandbox import FakeBackend


class _Deaf(httpx2.AsyncBaseTransport):
    """A kernel host whose cells never end, whatever it is told; it is alive all the time."""

    def __init__(self) -> None:
        self.posted = asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/cells":
            self.posted.set()
        return httpx2.Response(200, stream=_Beats())


class _Beats(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b'{"type":"piece","text":"x","source":"stdout"}\n'


class _Slow(FakeBackend):
    """Each sandbox but the first takes a time to start; all take a time to end."""

    def __init__(self, *, start_s: float = 0.0, end_s: float = 0.0) -> None:
        super().__init__()
        self._start_s, self._end_s = start_s, end_s
        self.starting = asyncio.Event()

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        if self.made:
            self.starting.set()
            await asyncio.sleep(self._start_s)
        sandbox = await super().start(spec, egress_socket=egress_socket)
        close = sandbox.close

        async def slowly() -> None:
            await asyncio.sleep(self._end_s)
            await close()

        sandbox.close = slowly  # type: ignore[method-assign]
        return sandbox

    def all_ended(self) -> bool:
        return all(sandbox._end.done() for sandbox in self.made)


@pytest.fixture(autouse=True)
def _short_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "LADDER_S", 0.05)
    monkeypatch.setattr(executor, "GRACE_S", 0.05)
    monkeypatch.setattr(executor, "START_GRACE_S", 0.05)


async def lose(backend: FakeBackend) -> None:
    backend.made[-1].lose()
    await asyncio.sleep(0)


async def test_a_session_closes_in_time_while_a_deaf_cell_runs() -> None:
    backend = _Slow()
    async with asyncio.timeout(GUARD_S):
        async with Session.open(backend=backend) as session:
            backend.made[0].door._transport = deaf = _Deaf()
            running = asyncio.ensure_future(session.execute("1", deadline_s=600))
            await deaf.posted.wait()
        cell = await running
    run = read_run(session.run_dir)
    assert (cell.status, cell.outputs[0].type, len(backend.made)) == ("sandbox_lost", "text", 1)
    assert (run.status, [closed.status for closed in run.cells]) == ("done", ["sandbox_lost"])
    assert verify(session.run_dir).status == "whole"
    assert backend.all_ended()


async def test_a_caller_who_leaves_waits_for_a_deaf_cell_no_longer_than_the_ladder() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session, asyncio.timeout(GUARD_S):
        backend.made[0].door._transport = deaf = _Deaf()
        running = asyncio.ensure_future(session.execute("1", deadline_s=600))
        await deaf.posted.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await session.execute("log(2)")).text == "2"
    assert [closed.status for closed in read_run(session.run_dir).cells] == ["sandbox_lost", "ok"]


async def test_no_sandbox_is_left_when_a_session_closes_while_one_is_starting() -> None:
    backend = _Slow(start_s=600)
    async with asyncio.timeout(GUARD_S):
        async with Session.open(backend=backend) as session:
            await lose(backend)
            running = asyncio.ensure_future(session.execute("1"))
            await backend.starting.wait()
        with pytest.raises(SessionClosed):
            await running
    assert backend.all_ended()
    assert verify(session.run_dir).status == "whole"


async def test_all_who_find_a_sandbox_ended_get_the_same_new_one() -> None:
    backend = _Slow(start_s=0.05)
    async with Session.open(backend=backend) as session:
        await lose(backend)
        await asyncio.gather(
            session.execute("1"), session.list_files(), session.screenshot(), session.write_file("a", b"")
        )
    assert len(backend.made) == 2
    assert backend.all_ended()


async def test_a_request_at_a_closed_session_starts_nothing() -> None:
    backend = FakeBackend()
    async with Session.open(backend=backend) as session:
        pass
    for request in (session.screenshot(), session.list_files(), session.read_file("a"), session.restart()):
        with pytest.raises(CellwrightError):
            await request
    assert len(backend.made) == 1


@pytest.mark.slow
async def test_an_answer_does_not_wait_until_the_lost_sandbox_has_ended() -> None:
    backend = _Slow(end_s=0.25)
    async with Session.open(backend=backend) as session:
        backend.made[0].door._transport = _Deaf()
        cell = await session.execute("1", deadline_s=0.01)
        assert (cell.status, backend.made[0]._end.done()) == ("sandbox_lost", False)
        assert (await session.execute("log(2)")).text == "2"
        assert backend.made[0]._end.done()
    assert backend.all_ended()


async def test_time_counts_from_the_request_where_a_sandbox_has_to_be_started_first() -> None:
    backend = _Slow(start_s=0.3)
    async with Session.open(backend=backend) as session:
        await lose(backend)
        late = await session.execute("log(1)", deadline_s=0.05, since=time.monotonic())
        assert (late.status, "Nothing ran" in late.text) == ("error", True)
        backend._start_s = 0
        assert (await session.execute("log(2)", deadline_s=5, since=time.monotonic())).text.endswith("2")
    assert [closed.status for closed in read_run(session.run_dir).cells] == ["error", "ok"]


async def test_a_cell_that_ran_and_could_not_be_recorded_is_said_to_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise DiskFull("The disk is full.")

    async with Session.open(backend=FakeBackend()) as session:
        with monkeypatch.context() as patch:
            patch.setattr(session.journal, "cell_closed", full)
            with pytest.raises(DiskFull, match=r"The cell ran, and ended as 'ok', but what it gave is lost\."):
                await session.execute("x = 7")
        assert (await session.execute("log(x)")).text == "7"


@pytest.mark.parametrize("fault", ["the run is gone", "a hanging process", "a disk error"])
async def test_a_session_that_does_not_close_in_order_touches_no_other(fault: str) -> None:
    backend = FakeBackend()
    async with Pool(Spec(), capacity=2, backend=backend) as pool:
        bad = await pool.session("bad", driver="guide")
        good = await pool.session("good", driver="guide")
        if fault == "the run is gone":
            shutil.rmtree(bad.run_dir)
        else:
            error = TimeoutError() if fault == "a hanging process" else OSError(5, "Input/output error")
            backend.made[0].close = _raising(error)  # type: ignore[method-assign]
        await pool.close("bad")
        assert (await good.execute("log(1)")).text == "1"
        assert (await (await pool.session("bad", driver="guide")).execute("log(2)")).text == "2"


def _raising(error: Exception):  # type: ignore[no-untyped-def]
    async def close() -> None:
        raise error

    return close


class _Hanging(httpx2.AsyncBaseTransport):
    """A kernel host that answers nothing until its sandbox ends, and then breaks off."""

    def __init__(self) -> None:
        self.asked, self.ended = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.set()
        await self.ended.wait()
        raise httpx2.ReadError("It hung up.", request=request)


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.restart("javascript"),
        lambda session: session.screenshot(),
        lambda session: session.list_files(),
        lambda session: session.read_file("a"),
        lambda session: session.write_file("a", b"x"),
        lambda session: session.delete_file("a"),
        lambda session: session.attached.connection("python"),
    ],
    ids=["restart", "screen", "list", "read", "write", "delete", "connection"],
)
async def test_what_breaks_off_because_the_session_is_closed_is_said_to_be_just_that(
    ask: Callable[[Session], Awaitable[object]],
) -> None:
    backend, host = FakeBackend(), _Hanging()
    async with asyncio.timeout(GUARD_S), Session.open(backend=backend) as session:
        backend.made[0]._door = Door(host)
        asking = asyncio.ensure_future(ask(session))
        await host.asked.wait()
        end = asyncio.get_running_loop().call_later(0.01, host.ended.set)  # while it closes
    with pytest.raises(SessionClosed):
        await asking
    end.cancel()


async def test_what_cannot_be_recorded_any_more_is_said_to_come_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    written = asyncio.Event()
    backend = FakeBackend()
    async with asyncio.timeout(GUARD_S), Session.open(backend=backend) as session:
        door_writes = backend.made[0].door.write_file

        async def slowly(path: str, data: bytes) -> None:
            await door_writes(path, data)
            await written.wait()

        monkeypatch.setattr(backend.made[0].door, "write_file", slowly)
        asking = asyncio.ensure_future(session.write_file("a", b"x"))
        await asyncio.sleep(0)
    written.set()
    with pytest.raises(SessionClosed):
        await asking
