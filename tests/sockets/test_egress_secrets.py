"""Placeholders on their way out: replaced in headers for the hosts they are bound to, refused wherever else they stand."""

from __future__ import annotations

import asyncio
import base64
import itertools
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.sockets.test_egress_proxy import Client, ask, echo, says, service
from tests.waiting import GUARD_S

from cellwright.egress import EgressProxy, EgressRequest, Timeouts, Tls
from cellwright.secrets import Secrets

VALUE = "s3cret-Ä/value"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
_numbers = itertools.count()


@asynccontextmanager
async def proxy(
    folder: Path, port: int, *, bound: str | None = None, timeouts: Timeouts | None = None
) -> AsyncIterator[tuple[Path, str, list[EgressRequest]]]:
    """A proxy that allows two spellings of one service, and a secret that is bound to one of them."""
    told: list[EgressRequest] = []
    hosts = (bound or f"127.0.0.1:{port}",)
    secrets = Secrets({"KEY": VALUE, "TYPED": "never sent"}, {"KEY": hosts})
    socket = folder / f"s{next(_numbers)}"
    allow = (f"127.0.0.1:{port}", f"localhost:{port}")
    async with EgressProxy(allow, socket, lambda: told.append, secrets=secrets, timeouts=timeouts):
        yield socket, secrets.placeholders["KEY"], told


@asynccontextmanager
async def tunnel(socket: Path, port: int) -> AsyncIterator[Client]:
    """A tunnel to the service, open."""
    async with asyncio.timeout(GUARD_S), Client(socket) as client:
        assert b"200" in await client.head(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        yield client


def request(port: int, *headers: str, host: str = "127.0.0.1", path: str = "/", body: bytes = b"") -> bytes:
    lines = (f"POST http://{host}:{port}{path} HTTP/1.1", f"Host: {host}", *headers)
    length = () if any(line.lower().startswith("transfer-") for line in headers) else (f"Content-Length: {len(body)}",)
    return "\r\n".join((*lines, *length, "", "")).encode() + body


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Authorization: Bearer {}", f"Authorization: Bearer {VALUE}"),
        ("X-Key: {}", f"X-Key: {VALUE}"),
        ("Cookie: a=1; key={}; b={}", f"Cookie: a=1; key={VALUE}; b={VALUE}"),
        ("Authorization: Basic {basic}", "Authorization: Basic " + base64.b64encode(f"user:{VALUE}".encode()).decode()),
    ],
)
async def test_a_header_for_the_bound_host_has_the_value(tmp_path: Path, header: str, expected: str) -> None:
    heard: list[bytes] = []
    async with service(says(OK, heard)) as port, proxy(tmp_path, port) as (socket, placeholder, told):
        basic = base64.b64encode(f"user:{placeholder}".encode()).decode()
        answer = await ask(socket, request(port, header.format(placeholder, placeholder, basic=basic)))
        assert answer.startswith(b"HTTP/1.1 200")
    assert expected.encode() in heard[0].split(b"\r\n")
    assert [(one.allowed, one.secrets) for one in told] == [(True, ("KEY",))]
    assert VALUE not in repr(told)


async def test_it_is_replaced_within_a_tunnel_that_is_not_encrypted_too(tmp_path: Path) -> None:
    heard: list[bytes] = []
    async with (
        service(says(OK, heard)) as port,
        proxy(tmp_path, port) as (socket, placeholder, told),
        tunnel(socket, port) as client,
    ):
        for part in (
            "G",
            f"ET /path HTTP/1.1\r\nHost: its.own\r\nX-Key: {placeholder[:9]}",
            f"{placeholder[9:]}\r\n\r\n",
        ):
            client.writer.write(part.encode())
            await client.writer.drain()
            await asyncio.sleep(0.01)
        assert (await client.reader.read(-1)).startswith(b"HTTP/1.1 200")
    assert heard[0].startswith(b"GET /path HTTP/1.1\r\nHost: its.own\r\nX-Key: " + VALUE.encode())
    assert [(one.method, one.allowed, one.secrets) for one in told] == [("CONNECT", True, ("KEY",))]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        (
            {"headers": ("X-Key: {}",), "host": "localhost"},
            "a request to localhost:{port} had what stands for it in a header",
        ),
        ({"headers": ("X-{}: 1",)}, "stood in the name of a header of a request"),
        ({"path": "/?key={}"}, "stood in the URL of a request"),
        ({"path": "/{}", "host": "localhost"}, "stood in the URL of a request"),
        ({"body": "key={}"}, "stood in the body of a request"),
        ({"body": "key={lower}", "host": "localhost"}, "stood in the body of a request"),
        ({"headers": ("X-Key: {lower}",)}, "stood in a header, in another spelling, of a request"),
        ({"headers": ("Authorization: Basic {basic}",), "host": "localhost"}, "had what stands for it in a header"),
    ],
)
async def test_anywhere_else_it_is_refused_and_not_sent(
    tmp_path: Path, where: dict[str, object], sentence: str
) -> None:
    heard: list[bytes] = []

    async def listens(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            heard.append(data)

    async with service(listens) as port, proxy(tmp_path, port) as (socket, placeholder, told):
        basic = base64.b64encode(f"user:{placeholder}".encode()).decode()

        def filled(text: object) -> str:
            return str(text).format(placeholder, lower=placeholder.lower(), basic=basic)

        headers = [filled(header) for header in where.get("headers", ())]  # type: ignore[attr-defined]
        asked = request(
            port,
            *headers,
            host=str(where.get("host", "127.0.0.1")),
            path=filled(where.get("path", "/")),
            body=filled(where.get("body", "")).encode(),
        )
        answer = (await ask(socket, asked)).decode()
        assert answer.startswith("HTTP/1.1 403 ")
        assert sentence.format(port=port) in answer
        assert [(one.allowed, one.secrets) for one in told] == [(False, ("KEY",))]
        assert sentence.format(port=port) in str(told[0].reason)
        assert VALUE not in answer + repr(told)
    for spelling in (placeholder.encode(), placeholder.lower().encode(), basic.encode(), VALUE.encode()):
        assert spelling not in b"".join(heard)


@pytest.mark.parametrize("at", [1, 8, 20, 35])
async def test_a_body_in_pieces_hides_nothing(tmp_path: Path, at: int) -> None:
    heard = bytearray()

    async def listens(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            heard.extend(data)

    async with service(listens) as port, proxy(tmp_path, port) as (socket, placeholder, _):
        async with asyncio.timeout(GUARD_S), Client(socket) as client:
            client.writer.write(request(port, "Transfer-Encoding: chunked"))
            for piece in (f"key={placeholder[:at]}", placeholder[at:]):
                client.writer.write(f"{len(piece):x}\r\n{piece}\r\n".encode())
                await client.writer.drain()
                await asyncio.sleep(0.01)
            assert b"stood in the body" in await client.reader.read(-1)
        assert placeholder[at:].encode() not in heard


async def test_a_tunnel_that_speaks_no_http_is_broken_off_at_a_placeholder(tmp_path: Path) -> None:
    async with (
        service(echo) as port,
        proxy(tmp_path, port) as (socket, placeholder, told),
        tunnel(socket, port) as client,
    ):
        client.writer.write(b"\x16\x03hello")
        assert await client.reader.readexactly(7) == b"\x16\x03hello"
        client.writer.write(b"a" + placeholder[:10].encode())
        assert await client.reader.readexactly(11) == b"a" + placeholder[:10].encode()
        client.writer.write(placeholder[10:].encode() + b"z")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reader.readexactly(1)
    assert [(one.allowed, one.secrets) for one in told] == [(False, ("KEY",))]


async def test_a_service_that_speaks_first_is_not_kept_waiting(tmp_path: Path) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        writer.write((await reader.readline()).upper())
        await writer.drain()

    async with service(greets) as port, proxy(tmp_path, port) as (socket, _, told), tunnel(socket, port) as client:
        assert await client.reader.readline() == b"220 ready\r\n"
        client.writer.write(b"ehlo\r\n")
        assert await client.reader.read(-1) == b"EHLO\r\n"
    assert [(one.allowed, one.secrets) for one in told] == [(True, ())]


async def test_a_clear_request_to_the_port_of_tls_goes_out_encrypted_and_to_nobody_else(tmp_path: Path) -> None:
    heard: list[bytes] = []
    mine, foreign = certificate(tmp_path / "mine", "IP:127.0.0.1"), certificate(tmp_path / "foreign", "DNS:other")
    for name, presented, status in (("ok", mine, b"200"), ("no", foreign, b"502")):
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(presented)
        async with service(says(OK, heard), tls=server) as port:
            secrets = Secrets({"KEY": VALUE}, {"KEY": (f"127.0.0.1:{port}",)})
            tls = Tls(frozenset({port}), ssl.create_default_context(cafile=str(mine)))
            async with EgressProxy((f"127.0.0.1:{port}",), tmp_path / name, secrets=secrets, tls=tls):
                answer = await ask(tmp_path / name, request(port, f"X-Key: {secrets.placeholders['KEY']}"))
                assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert [f"X-Key: {VALUE}".encode() in head for head in heard] == [True]


def certificate(file: Path, name: str) -> Path:
    """A certificate of its own, with its key."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test".split()
    key, own = file.with_suffix(".key"), file.with_suffix(".crt")
    subprocess.run(
        [*command, "-addext", f"subjectAltName={name}", "-keyout", key, "-out", own], check=True, capture_output=True
    )
    file.write_bytes(key.read_bytes() + own.read_bytes())
    return file


async def test_a_placeholder_as_a_host_is_asked_of_nobody(tmp_path: Path) -> None:
    async with service(says(OK)) as port, proxy(tmp_path, port) as (socket, placeholder, told):
        for asked in (f"GET http://{placeholder}:{port}/ HTTP/1.1", f"CONNECT {placeholder}:443 HTTP/1.1"):
            assert b"stood in the URL" in await ask(socket, f"{asked}\r\nHost: x\r\n\r\n".encode())
    assert [one.secrets for one in told] == [("KEY",), ("KEY",)]


async def test_without_secrets_a_tunnel_is_carried_as_it_is(tmp_path: Path) -> None:
    async with service(echo) as port:
        socket = tmp_path / "none"
        async with EgressProxy((f"127.0.0.1:{port}",), socket), tunnel(socket, port) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n")
            assert await client.reader.readexactly(16) == b"GET / HTTP/1.1\r\n"
