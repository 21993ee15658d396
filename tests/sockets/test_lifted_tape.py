"""A connection that came while a tape answered, and asks once it was lifted, is one of the world's in all respects."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.sockets.test_egress_proxy import says, service
from tests.waiting import GUARD_S

from cellwright.egress import EgressProxy, EgressRequest, Tape
from cellwright.egress.traffic import Request, Traffic


class Hearing:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def request(self, request: Request) -> int | None:
        self.heard.append(f"{request.method} {request.target}")
        return None

    def response(self, traffic: Traffic, cell: int | None) -> None:  # noqa: ARG002 - no cell
        self.heard.append(f"{traffic.status} {traffic.request.target}")

    def unread(self, host: str, port: int) -> None:
        self.heard.append(f"{host}:{port}")


async def test_who_asks_after_the_tape_was_lifted_is_let_out_though_he_came_before(tmp_path: Path) -> None:
    told: list[EgressRequest] = []
    live, taped = Hearing(), Hearing()
    tape = Tape((), lambda _: None, lambda _, *, matters: None)  # noqa: ARG005 - nobody is told
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlive"
    async with asyncio.timeout(GUARD_S), service(says(answer)) as port:
        place = f"127.0.0.1:{port}"
        socket = tmp_path / "proxy.sock"
        proxy = EgressProxy([place], socket, lambda: told.append, hears=live, hears_tape=taped, tape=tape)
        async with proxy:
            came_before = await asyncio.open_unix_connection(socket)
            early = await asked(await asyncio.open_unix_connection(socket), f"http://{place}/early")
            tape.lift()
            late = await asked(came_before, f"http://{place}/late")
    assert early.startswith(b"HTTP/1.1 502")
    assert late.endswith(b"live")
    assert [(request.taped, request.address) for request in told] == [(True, None), (False, "127.0.0.1")]
    assert (taped.heard, live.heard) == (["GET /early", "502 /early"], ["GET /late", "200 /late"])


async def asked(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], url: str) -> bytes:
    reader, writer = connection
    writer.write(f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer
