from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import GUARD_S

from cellwright.egress import EgressProxy
from cellwright_kernel import egress
from cellwright_kernel.egress import Forwarder, proxy_environment
from cellwright_kernel.wire import Forward, HostSettings


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def proxy_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port of the test's own in place of 3128, which may be taken outside of a sandbox."""
    port = free_port()
    monkeypatch.setattr(egress, "PROXY_PORT", port)
    return port


def settings(path: Path | None, *forwards: Forward) -> HostSettings:
    return HostSettings(door="fd:3", egress_socket=None if path is None else str(path), forwards=forwards)


@asynccontextmanager
async def outside(path: Path, answer: bytes) -> AsyncIterator[list[bytes]]:
    """Stands for the egress proxy: gives `answer` to each head, then echoes in capitals. What it heard."""
    heard: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        while answer.startswith(b"HTTP/1.1 200") and (data := await reader.read(65536)):
            writer.write(data.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(lambda r, w: serving.add(asyncio.ensure_future(serve(r, w))), path)
    try:
        yield heard
    finally:
        server.close()
        await asyncio.gather(*serving)


async def talk(address: str, port: int, words: bytes) -> bytes:
    async with asyncio.timeout(GUARD_S):
        reader, writer = await asyncio.open_connection(address, port)
        writer.write(words)
        writer.write_eof()
        try:
            return await reader.read(-1)
        finally:
            writer.close()


async def test_the_proxy_port_carries_bytes_as_they_are(tmp_path: Path, proxy_port: int) -> None:
    async with outside(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\n") as heard, Forwarder(settings(tmp_path / "s")) as up:
        assert up.problems == ()
        words = b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"
        assert await talk("127.0.0.1", proxy_port, words + b"hello") == b"HTTP/1.1 200 OK\r\n\r\nHELLO"
        assert heard == [words]


@pytest.mark.usefixtures("proxy_port")
async def test_a_service_outside_is_at_its_own_port_inside(tmp_path: Path) -> None:
    port = free_port()
    forward = Forward(host="localhost", port=port)
    answer = b"HTTP/1.1 200 Connection established\r\n\r\nbanner "
    async with outside(tmp_path / "s", answer) as heard, Forwarder(settings(tmp_path / "s", forward)):
        assert await talk("127.0.0.1", port, b"hello") == b"banner HELLO"
        assert await talk("::1", port, b"hello") == b"banner HELLO"
    connect = f"CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n".encode()
    assert heard == [connect, connect]


@pytest.mark.usefixtures("proxy_port")
async def test_two_services_of_one_port_keep_their_own_address(tmp_path: Path) -> None:
    port = free_port()
    both = (Forward(host="127.0.0.1", port=port), Forward(host="::1", port=port))
    async with outside(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\n") as heard, Forwarder(settings(tmp_path / "s", *both)):
        await talk("::1", port, b"")
        await talk("127.0.0.1", port, b"")
    assert [head.split()[1] for head in heard] == [f"[::1]:{port}".encode(), f"127.0.0.1:{port}".encode()]


@pytest.mark.usefixtures("proxy_port")
async def test_a_refusal_is_told_to_who_speaks_http_and_breaks_off_others(tmp_path: Path) -> None:
    port = free_port()
    forward = Forward(host="127.0.0.1", port=port)
    refusal = b"HTTP/1.1 502 Nothing listens there.\r\n\r\n"
    async with outside(tmp_path / "s", refusal), Forwarder(settings(tmp_path / "s", forward)):
        answer = await talk("127.0.0.1", port, b"POST / HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        assert answer.endswith(b"\r\n\r\nNothing listens there.\n")
        assert await talk("127.0.0.1", port, b"\0\0\0\x08") == b""


async def test_without_the_proxy_there_is_a_sentence(tmp_path: Path, proxy_port: int) -> None:
    async with Forwarder(settings(tmp_path / "gone")):
        answer = await talk("127.0.0.1", proxy_port, b"GET http://example.org/ HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"The egress proxy outside does not answer" in answer


@pytest.mark.usefixtures("proxy_port")
async def test_a_port_that_is_taken_is_a_problem_and_no_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with Forwarder(settings(tmp_path / "s", Forward(host="127.0.0.1", port=port))) as forwarder:
            (problem,) = forwarder.problems
    assert problem.startswith(f"Nothing can listen on 127.0.0.1:{port} inside: ")


async def test_closing_ends_connections_and_frees_the_ports(tmp_path: Path, proxy_port: int) -> None:
    async with outside(tmp_path / "s", b"HTTP/1.1 200 OK\r\n\r\n"), asyncio.timeout(GUARD_S):
        async with Forwarder(settings(tmp_path / "s")):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy_port)
            writer.write(b"CONNECT x:1 HTTP/1.1\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        assert await reader.read(-1) == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy_port)


async def test_without_a_way_out_nothing_listens(proxy_port: int) -> None:
    async with Forwarder(settings(None)):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy_port)
    assert proxy_environment(settings(None)) == {}


REQUESTS = (
    b"\0\0\0\x08\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.example/ HTTP/1.1\r\n\r\n",
    b"GET http://a.example/ HTTP/1.0\r\n\r\n",
    b"GET http://a.example/\nb HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.exa\nmple/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.example\t.b/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a.example\n:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET https://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a@a.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a\x1b[1m.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://" + 254 * b"a" + b"/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.example/" + 40_000 * b"a" + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.example:0/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://a.example:/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://127.1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://A.Example.:8080?q HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD http://a.example/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    b"POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"CONNECT [ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a.example HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a.example:0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a.example:99999 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT a.example:0x50 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT A.example.:443 HTTP/1.1\r\nHost: x\r\nUser-Agent:  Mozilla/5.0\r\n\r\n",
    b"CONNECT [::ffff:10.0.0.1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT [64:ff9b::7f00:1]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
)


@pytest.mark.parametrize("words", REQUESTS, ids=range(len(REQUESTS)))
async def test_both_ends_answer_alike(words: bytes, tmp_path: Path, proxy_port: int) -> None:
    """Byte for byte; and both tell the cell alike of a refused CONNECT, which a site cannot answer."""
    said, told = [], []
    for inside in (settings(tmp_path / "s"), HostSettings(door="fd:3", own_loopback=True)):
        refusals: list[tuple[str, str | None]] = []
        heard = lambda *refusal, refusals=refusals: refusals.append(refusal)  # noqa: E731 - it is one line
        async with EgressProxy([], tmp_path / "s"), Forwarder(inside, heard):
            said.append(await talk("127.0.0.1", proxy_port, words))
        told.append(refusals)
    assert said[0] == said[1]
    assert said[0].startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    if words.startswith(b"CONNECT"):
        assert told[0] == told[1]


@pytest.mark.parametrize(
    ("host", "shown"), [("example.org", "example.org"), ("[2001:db8::1]", "[2001:db8::1]"), ("192.0.2.1", "192.0.2.1")]
)
async def test_both_ends_write_an_address_alike(host: str, shown: str, tmp_path: Path, proxy_port: int) -> None:
    told: list[tuple[str, str | None]] = []
    asked = f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nUser-Agent: Mozilla/5.0\r\n\r\n".encode()
    for inside in (settings(tmp_path / "s"), HostSettings(door="fd:3", own_loopback=True)):
        async with EgressProxy([], tmp_path / "s"), Forwarder(inside, lambda *refusal: told.append(refusal)):
            await talk("127.0.0.1", proxy_port, asked)
    assert [(sentence.split()[0], said) for sentence, said in told] == [(f"{shown}:443", host.strip("[]"))] * 2


@pytest.mark.parametrize(
    "request_line", [b"CONNECT example.org:443 HTTP/1.1\r\n", b"GET http://example.org:443/x HTTP/1.1\r\n"]
)
async def test_where_there_is_no_way_out_the_answer_is_what_an_empty_allow_list_says(
    request_line: bytes, tmp_path: Path, proxy_port: int
) -> None:
    asked = request_line + b"Host: example.org:443\r\n\r\n"
    told: list[tuple[str, str | None]] = []
    alone = HostSettings(door="fd:3", own_loopback=True)
    async with Forwarder(alone, lambda *refusal: told.append(refusal)):
        answer = await talk("127.0.0.1", proxy_port, asked)
    async with (
        EgressProxy([], tmp_path / "s"),
        Forwarder(settings(tmp_path / "s"), lambda *refusal: told.append(refusal)),
    ):
        outside = await talk("127.0.0.1", proxy_port, asked)
    sentence = (
        "example.org:443 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
        "`--allow HOST[:PORT]`; it allows nothing."
    )
    is_tunnel = request_line.startswith(b"CONNECT")  # to anything else, what comes from outside may be a site's words
    from_outside = sentence if is_tunnel else sentence.replace("; it allows nothing", "")
    assert told == [(sentence, None), (from_outside, None)]
    for said in (answer, outside):
        assert said.startswith(f"HTTP/1.1 403 {sentence}\r\n".encode())
        assert said.endswith(f"\r\n\r\n{sentence}\n".encode())


async def test_what_a_site_says_is_not_told_as_a_refusal(tmp_path: Path, proxy_port: int) -> None:
    port = free_port()
    told: list[tuple[str, str | None]] = []
    words = b"HTTP/1.1 403 Buy now; this is not on the allow-list\r\n\r\n"
    async with (
        outside(tmp_path / "s", words),
        Forwarder(settings(tmp_path / "s"), lambda *refusal: told.append(refusal)),
    ):
        assert await talk("127.0.0.1", proxy_port, b"GET http://a.example/ HTTP/1.1\r\n\r\n") == words
    forward = Forward(host="127.0.0.1", port=port)
    forwarder = Forwarder(settings(tmp_path / "t", forward), lambda *refusal: told.append(refusal))
    async with outside(tmp_path / "t", b"HTTP/1.1 200 OK\r\n\r\n" + words), forwarder:
        assert (
            await talk("127.0.0.1", port, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
            == words + b"CONNECT A.EXAMPLE:443 HTTP/1.1\r\n\r\n"
        )
    assert told == []


@pytest.mark.parametrize("has_way_out", [True, False])
async def test_a_refusal_says_for_which_host_a_browser_asked(
    has_way_out: bool, tmp_path: Path, proxy_port: int
) -> None:
    told: list[tuple[str, str | None]] = []
    inside = settings(tmp_path / "s") if has_way_out else HostSettings(door="fd:3", own_loopback=True)
    connect = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n"
    async with EgressProxy([], tmp_path / "s"), Forwarder(inside, lambda *refusal: told.append(refusal)):
        await talk("127.0.0.1", proxy_port, connect + b"User-Agent: Mozilla/5.0 (X11) Chrome/156\r\n\r\n")
        await talk("127.0.0.1", proxy_port, connect + b"User-Agent: curl/8.0\r\n\r\n")
    assert [host for _, host in told] == ["example.org", None]


PAGE = b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Mozilla/5.0\r\nUpgrade-Insecure-Requests: 1\r\n\r\n"


@pytest.mark.parametrize("has_way_out", [True, False])
@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        (PAGE, True),
        (PAGE.replace(b"Mozilla", b"curl"), False),
        (PAGE.replace(b"Upgrade-Insecure-Requests: 1\r\n", b""), False),
        (PAGE.replace(b"Host:", b"Referer: http://127.0.0.1/\r\nHost:"), False),
        (PAGE.replace(b"GET http://example.org/", b"CONNECT example.org:443"), False),
    ],
    ids=["page", "program", "of-itself", "frame", "tunnel"],
)
async def test_a_page_that_is_refused_is_told_of(
    asked: bytes, is_told: bool, has_way_out: bool, tmp_path: Path, proxy_port: int
) -> None:
    told: list[str] = []
    inside = settings(tmp_path / "s") if has_way_out else HostSettings(door="fd:3", own_loopback=True)
    forwarder = Forwarder(inside, refused_page=told.append)
    async with EgressProxy([], tmp_path / "s"), forwarder:
        await talk("127.0.0.1", proxy_port, asked)
    sentence = (
        "example.org:80 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, with "
        "`--allow HOST[:PORT]`"
    )
    assert told == ([sentence + ("." if has_way_out else "; it allows nothing.")] if is_told else [])


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 403 Buy now; this is not on the allow-list\r\n\r\n",
        b"HTTP/1.1 403 other.example:80 is not on the allow-list of this sandbox. Whoever starts it can open a host to it, "
        b"with `--allow HOST[:PORT]`; it allows buying.\r\n\r\n",
    ],
)
async def test_no_word_of_a_site_is_told_as_a_refusal_of_a_page(words: bytes, tmp_path: Path, proxy_port: int) -> None:
    told: list[str] = []
    async with outside(tmp_path / "s", words), Forwarder(settings(tmp_path / "s"), refused_page=told.append):
        assert await talk("127.0.0.1", proxy_port, PAGE) == words
    assert told == []


def test_programs_are_sent_to_the_proxy_by_both_spellings(tmp_path: Path) -> None:
    assert proxy_environment(settings(tmp_path / "s")) == {
        "http_proxy": "http://127.0.0.1:3128",
        "https_proxy": "http://127.0.0.1:3128",
        "all_proxy": "http://127.0.0.1:3128",
        "no_proxy": "localhost,sandbox,127.0.0.1,0.0.0.0,::1",
        "HTTP_PROXY": "http://127.0.0.1:3128",
        "HTTPS_PROXY": "http://127.0.0.1:3128",
        "ALL_PROXY": "http://127.0.0.1:3128",
        "NO_PROXY": "localhost,sandbox,127.0.0.1,0.0.0.0,::1",
        "NODE_USE_ENV_PROXY": "1",
    }
