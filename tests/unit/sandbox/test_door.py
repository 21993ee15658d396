"""The door to a kernel host that behaves: what it costs, and where a cell's stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.waiting import GUARD_S

from cellwright.errors import BadPath, FileMissing, FileTooLarge, SandboxLost, UsageError
from cellwright.sandbox.door import Door
from cellwright_kernel.wire import ClosedEvent, Event, Execute, OutputEvent, Text

OUTPUT = OutputEvent(number=0, output=Text(text="1", source="log"))
CLOSED = ClosedEvent(status="ok")


async def test_all_cells_go_over_one_connection(tmp_path: Path) -> None:
    async with host(tmp_path / "door", OUTPUT, CLOSED) as (door, connections):
        for number in range(1, 4):
            assert [event async for event in door.execute(_cell(number))] == [OUTPUT, CLOSED]
    assert len(connections) == 1


async def test_a_host_that_goes_on_after_the_end_is_lost(tmp_path: Path) -> None:
    async with host(tmp_path / "door", CLOSED, OUTPUT) as (door, _):
        with pytest.raises(SandboxLost, match="went on after it had closed a cell"):
            [event async for event in door.execute(_cell(1))]


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, BadPath), (403, BadPath), (404, FileMissing), (409, UsageError), (413, FileTooLarge), (500, SandboxLost)],
)
async def test_a_refusal_of_a_file_is_an_error_of_ours_in_the_hosts_words(status: int, error: type[Exception]) -> None:
    async def refuse(_: Request) -> JSONResponse:
        return JSONResponse({"error": "It said so."}, status_code=status)

    door = Door(httpx2.ASGITransport(app=Starlette(routes=[Route("/files/{path}", refuse)])))
    with pytest.raises(error, match="It said so") as refused:
        [chunk async for chunk in door.read_file("a")]
    assert refused.type is error
    await door.close()


@asynccontextmanager
async def host(path: Path, *events: Event) -> AsyncIterator[tuple[Door, list[asyncio.StreamWriter]]]:
    """Answer each request with these events, in chunks as the real host does; give the door and the connections."""
    connections: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while head := await _head(reader):
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for event in events:
                line = event.model_dump_json().encode() + b"\n"
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            writer.write(b"0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_unix_server(answer, path)
    door = Door.at(path)
    try:
        yield door, connections
    finally:
        await door.close()
        server.close()
        async with asyncio.timeout(GUARD_S):
            await asyncio.gather(*(writer.wait_closed() for writer in connections), return_exceptions=True)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def _cell(number: int) -> Execute:
    return Execute(number=number, language="python", code="log(1)", deadline_s=5)


async def test_a_connection_that_was_closed_meanwhile_is_replaced(tmp_path: Path) -> None:
    async with host(tmp_path / "door", CLOSED) as (door, connections):
        [event async for event in door.execute(_cell(1))]
        connections[0].close()
        await connections[0].wait_closed()
        assert [event async for event in door.execute(_cell(2))] == [CLOSED]
    assert len(connections) == 2


async def test_a_connection_whose_answer_was_left_is_not_used_again(tmp_path: Path) -> None:
    async with host(tmp_path / "door", OUTPUT, CLOSED) as (door, connections):
        events = door.execute(_cell(1))
        assert await anext(events) == OUTPUT
        await events.aclose()  # type: ignore[attr-defined]
        assert [event async for event in door.execute(_cell(2))] == [OUTPUT, CLOSED]
    assert len(connections) in {1, 2}  # one where the whole answer had come with its first piece
