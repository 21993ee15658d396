"""The door against a kernel host that was taken over: whatever it sends, the outside goes on in time and in its memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from tests.waiting import GUARD_S

from cellwright.errors import SandboxLost
from cellwright.sandbox import door as doors
from cellwright.sandbox.door import Door
from cellwright.sandbox.unix_transport import UnixTransport
from cellwright_kernel.wire import Event

Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_S", "LATE_S", "SO_FAR_S", "RESTART_S", "FILE_S", "SILENCE_S"):
        monkeypatch.setattr(doors, name, 0.3)


async def _read(door: Door) -> bytes:
    return b"".join([chunk async for chunk in door.read_file("a")])


async def _late(door: Door) -> list[Event]:
    return [event async for event in door.late()]


async def _so_far(door: Door) -> list[Event]:
    return [event async for event in door.so_far()]


ASKED: dict[str, Callable[[Door], Awaitable[object]]] = {
    "interrupt": lambda door: door.interrupt("python"),
    "restart": lambda door: door.restart("python"),
    "screenshot": lambda door: door.screenshot(),
    "list files": lambda door: door.list_files(),
    "read a file": _read,
    "write a file": lambda door: door.write_file("a", b"data"),
    "delete a file": lambda door: door.delete_file("a"),
    "ready": lambda door: door.ready(0),
    "late": _late,
    "so far": _so_far,
}


@asynccontextmanager
async def host(path: Path, answering: Answering) -> AsyncIterator[Door]:
    """Serve whatever `answering` writes to each connection, behind a door."""
    tasks: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answering(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_unix_server(
        lambda reader, writer: tasks.add(asyncio.ensure_future(answer(reader, writer))), path
    )
    door = Door.at(path)
    try:
        yield door
    finally:
        await door.close()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the aborted transports are closed by then


def saying(answer: bytes) -> Answering:
    """Answer every request with these bytes."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(answer)
            await writer.drain()

    return say


def whole(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole HTTP answer."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


async def _drip_header(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


async def _drip_body(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4294967296\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("drip", [_drip_header, _drip_body])
async def test_an_answer_that_drips_for_ever_ends(tmp_path: Path, drip: Answering) -> None:
    async with host(tmp_path / "door", drip) as door, asyncio.timeout(GUARD_S):
        answers = await asyncio.gather(*(ask(door) for ask in ASKED.values()), return_exceptions=True)
    assert [type(answer) for answer in answers] == [SandboxLost] * len(ASKED)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0" * 4096,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffffffff\r\n",
        b"HTTP/1.1 500 No\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 1_000_000,
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        whole(b"\xff" * 1000, status="503 \x1b[2J"),
    ],
)
async def test_no_answer_but_a_good_one_is_believed(tmp_path: Path, answer: bytes) -> None:
    async with host(tmp_path / "door", saying(answer)) as door, asyncio.timeout(GUARD_S):
        answers = await asyncio.gather(*(ask(door) for ask in ASKED.values()), return_exceptions=True)
    assert [type(answer) for answer in answers] == [SandboxLost] * len(ASKED)


@pytest.mark.parametrize(
    "answer", [whole(b"<html>"), whole(b""), whole(b"", status="304 Not Modified"), whole(b"", status="204 No Content")]
)
async def test_a_screenshot_is_a_png_or_none(tmp_path: Path, answer: bytes) -> None:
    async with host(tmp_path / "door", saying(answer)) as door:
        with pytest.raises(SandboxLost):
            await door.screenshot()


async def test_a_tag_that_cannot_be_sent_back_is_not_kept(tmp_path: Path) -> None:
    answer = whole(b"\x89PNG\r\n\x1a\n", headers="ETag: \xe9\xff\r\n")
    async with host(tmp_path / "door", saying(answer)) as door:
        for _ in range(2):
            taken = await door.screenshot((await door.screenshot() or (b"", ""))[1])
            assert taken == (b"\x89PNG\r\n\x1a\n", "")


async def test_what_the_host_sets_is_not_sent_back(tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def remember(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(65536):
            asked.append(request)
            writer.write(whole(b"", headers=f"Set-Cookie: a{len(asked)}={'x' * 4000}; Path=/\r\n"))
            await writer.drain()

    async with host(tmp_path / "door", remember) as door:
        for _ in range(3):
            await door.interrupt("python")
    assert not [request for request in asked if b"cookie" in request.lower()]


async def test_a_door_is_closed_although_the_host_does_not_take_what_was_sent(tmp_path: Path) -> None:
    taking = asyncio.Event()

    async def take_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport reads as well
        taking.set()
        await asyncio.Event().wait()

    async with host(tmp_path / "door", take_nothing) as door:
        writing = asyncio.ensure_future(door.write_file("a", b"x" * 5_000_000))
        await taking.wait()
        async with asyncio.timeout(GUARD_S):
            await door.close()
            with pytest.raises(SandboxLost):
                await writing


async def test_an_answer_that_came_before_it_was_asked_for_is_nobodys(tmp_path: Path) -> None:
    taken, sent = asyncio.Event(), asyncio.Event()

    async def go_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(whole(b"asked"))
            await writer.drain()
            await taken.wait()
            if not sent.is_set():
                writer.write(whole(b"not asked"))
                await writer.drain()
                sent.set()

    async with host(tmp_path / "door", go_on) as door:
        assert await _read(door) == b"asked"
        taken.set()
        await sent.wait()
        for _ in range(4):  # turns of the loop, until it was read
            await asyncio.sleep(0)
        assert await _read(door) == b"asked"


async def test_what_was_not_read_of_an_answer_is_not_read_as_the_next_one(tmp_path: Path) -> None:
    answers = iter([whole(b"first"), whole(b"second")])

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(next(answers))
            await writer.drain()

    async with host(tmp_path / "door", answer):
        transport = UnixTransport(tmp_path / "door")
        await (await transport.handle_async_request(httpx2.Request("GET", "http://sandbox/"))).aclose()
        response = await transport.handle_async_request(httpx2.Request("GET", "http://sandbox/"))
        assert await response.aread() == b"second"
        await transport.aclose()
