"""Bytes made up by the hundred, at every place where the outside reads what comes out of a sandbox: door, tunnel and egress proxy."""

from __future__ import annotations

import asyncio
import resource
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.egress import EgressProxy, EgressRequest, Timeouts
from cellwright.errors import SandboxLost
from cellwright.sandbox import tunnel as tunnels
from cellwright.sandbox.door import Door
from cellwright.sandbox.tunnel import TunnelRefused, open_tunnel
from cellwright.sandbox.unix_transport import UnixTransport
from cellwright_kernel.wire import Execute

pytestmark = pytest.mark.slow

MANY = settings(max_examples=200, deadline=None, derandomize=True, database=None)

HEADS = (
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/9.9 999 \xff\r\n",
    b"ICY 200 OK\r\n",
)
FIELDS = (
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Content-Length: 18446744073709551615\r\n",
    b"Content-Length: 18446744073709551616\r\n",
    b"Content-Length: 5, 5\r\n",
    b"Content-Length: +5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"transfer-encoding : chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive, upgrade\r\n",
    b"ETag: \xff\r\n",
    b": nothing\r\n",
    b" folded\r\n",
    b"\0: \0\r\n",
    b"\r\n",
    b"\n",
)
BODIES = (
    b"hello",
    b"5\r\nhello\r\n",
    b"5;x=y\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nTrailer: x\r\n\r\n",
    b"ffffffff\r\n",
    b"FFFFFFFFFFFFFFFF\r\nx",
    b"10000000000000000\r\n",
    b"-1\r\n",
    b"5\r\nhel",
    b'{"type":"closed","status":"ok"}\n',
    b'1f\r\n{"type":"closed","status":"ok"}\r\n',
)
PARTS = st.one_of(st.sampled_from(HEADS), st.sampled_from(FIELDS), st.sampled_from(BODIES), st.binary(max_size=20))
ANSWERS = st.one_of(
    st.lists(PARTS, max_size=12),
    st.builds(
        lambda head, fields, bodies: [head, *fields, b"\r\n", *bodies],
        st.sampled_from(HEADS),
        st.lists(st.sampled_from(FIELDS[:11]), max_size=3),
        st.lists(st.sampled_from(BODIES), max_size=4),
    ),
)


async def answered(path: Path, pieces: Sequence[bytes], act: Callable[[], Coroutine[Any, Any, Any]]) -> object:
    """Do something while a host at `path` answers each connection with these pieces and hangs up; what it gave or raised."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read(4096)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_unix_server(say, path)
    try:
        async with asyncio.timeout(10):
            return (await asyncio.gather(act(), return_exceptions=True))[0]
    finally:
        server.close()
        await asyncio.sleep(0)


@MANY
@given(ANSWERS)
def test_an_answer_of_any_bytes_is_read_or_refused(pieces: list[bytes]) -> None:
    async def play(path: Path) -> object:
        transport = UnixTransport(path)

        async def ask() -> bytes:
            request = httpx2.Request("GET", "http://sandbox/", extensions={"timeout": {"read": 2.0}})
            response = await transport.handle_async_request(request)
            return await response.aread()

        try:
            return await answered(path, pieces, ask)
        finally:
            await transport.aclose()

    with tempfile.TemporaryDirectory() as folder:
        given_ = asyncio.run(play(Path(folder, "door")))
    assert isinstance(given_, (bytes, httpx2.TransportError)), repr(given_)
    if isinstance(given_, bytes):
        assert len(given_) <= len(b"".join(pieces))


@MANY
@given(ANSWERS)
def test_a_cell_of_any_bytes_ends_well_or_is_lost(pieces: list[bytes]) -> None:
    async def play(path: Path) -> object:
        door = Door.at(path)

        async def execute() -> int:
            request = Execute(number=1, language="python", code="1", deadline_s=1)
            return len([event async for event in door.execute(request)])

        try:
            return await answered(path, pieces, execute)
        finally:
            await door.close()

    with tempfile.TemporaryDirectory() as folder:
        given_ = asyncio.run(play(Path(folder, "door")))
    assert given_ == 1 or isinstance(given_, SandboxLost), repr(given_)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1" + b";x" * 30_000] * 4],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", *[b"Trailer: x\r\n" * 5000] * 4],
        [b"HTTP/1.1 200 " + b"O" * 60_000] * 3,
        [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 60_000] * 3,
        [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000] * 3,
        [b"\r\n" * 30_000] * 40,
    ],
    ids=["a chunk's head", "trailers", "a status line", "a field", "fields", "empty lines"],
)
async def test_what_comes_before_or_between_bodies_has_an_end(tmp_path: Path, pieces: list[bytes]) -> None:
    door = Door.at(tmp_path / "door")
    given_ = await answered(tmp_path / "door", pieces, lambda: door.interrupt("python"))
    await door.close()
    assert isinstance(given_, SandboxLost), repr(given_)


async def test_a_chunk_a_byte_takes_no_more_memory_than_is_read(tmp_path: Path) -> None:
    """Each byte of a body may be a piece of its own, and is held until it is asked for."""
    pieces = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n" * 40_000] * 25, b"0\r\n\r\n"]
    door = Door.at(tmp_path / "door")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    async def read() -> int:
        return sum([len(chunk) async for chunk in door.read_file("a")])

    assert await answered(tmp_path / "door", pieces, read) == 1_000_000
    await door.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


@MANY
@given(ANSWERS)
def test_a_tunnel_opens_to_what_speaks_websocket_or_is_refused(pieces: list[bytes]) -> None:
    async def play(path: Path) -> object:
        async def tunnel() -> None:
            async with open_tunnel("ws://sandbox/kernels/python/shell?kernel_id=0", socket_path=path):
                pass

        return await answered(path, pieces, tunnel)

    with tempfile.TemporaryDirectory() as folder:
        given_ = asyncio.run(play(Path(folder, "door")))
    assert isinstance(given_, TunnelRefused), repr(given_)


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 101 x\r\n", b"X: y\r\n", b"x"])
async def test_a_tunnel_that_drips_while_it_opens_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drip: bytes
) -> None:
    monkeypatch.setattr(tunnels, "_OPEN_S", 0.3)

    async def opened() -> None:
        async with open_tunnel("ws://sandbox/", socket_path=tmp_path / "door"):
            pass

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(drip)
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    tasks: set[asyncio.Task[None]] = set()
    server = await asyncio.start_unix_server(
        lambda reader, writer: tasks.add(asyncio.ensure_future(say(reader, writer))), tmp_path / "door"
    )
    async with asyncio.timeout(10):
        with pytest.raises(TunnelRefused):
            await opened()
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)  # the aborted transports are closed by then


ASKED = st.lists(
    st.one_of(
        st.sampled_from(
            (
                b"GET http://127.0.0.1:1/ HTTP/1.1\r\n",
                b"GET http://allowed.example.org/ HTTP/1.1\r\n",
                b"POST http://allowed.example.org:80/x HTTP/1.1\r\n",
                b"CONNECT allowed.example.org:443 HTTP/1.1\r\n",
                b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n",
                b"CONNECT [::ffff:7f00:1]:22 HTTP/1.1\r\n",
                b"CONNECT allowed.example.org@127.0.0.1:22 HTTP/1.1\r\n",
                b"GET http://allowed.example.org:80:22/ HTTP/1.1\r\n",
                b"GET //127.0.0.1/ HTTP/1.1\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            )
        ),
        st.sampled_from((b"Host: 127.0.0.1\r\n", b"Host: allowed.example.org\r\n", *FIELDS)),
        st.sampled_from(BODIES),
        st.binary(max_size=20),
    ),
    max_size=8,
)


@MANY
@given(ASKED)
def test_whatever_is_asked_of_the_proxy_leads_nowhere_but_where_it_may(pieces: list[bytes]) -> None:
    """The one name that is allowed leads to this machine, so no connection may come of anything."""
    told: list[EgressRequest] = []
    looked_up: list[str] = []

    async def resolve(host: str, _: int) -> list[Any]:
        from ipaddress import ip_address

        looked_up.append(host)
        return [ip_address("127.0.0.1")]

    async def play(path: Path) -> bytes:
        times = Timeouts(head_s=0.2, connect_s=0.2, idle_s=0.2, total_s=1)
        async with (
            EgressProxy(
                ["allowed.example.org", "allowed.example.org:443"],
                path,
                lambda: told.append,
                timeouts=times,
                resolve=resolve,
            ),
            asyncio.timeout(10),
        ):
            said = await _talk(path, b"".join(pieces))
            after = await _talk(path, b"GET http://other.example.org/ HTTP/1.0\r\n\r\n")
            assert after.startswith(b"HTTP/1.1 403 ")
            return said

    with tempfile.TemporaryDirectory() as folder:
        said = asyncio.run(play(Path(folder, "egress")))
    assert said == b"" or said.startswith(b"HTTP/1.1 4"), said[:100]
    assert [request for request in told if request.allowed or request.address] == []
    assert set(looked_up) <= {"allowed.example.org"}


async def _talk(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(data)
        writer.write_eof()
        return await reader.read(-1)
    except ConnectionError:
        return b""
    finally:
        writer.close()
