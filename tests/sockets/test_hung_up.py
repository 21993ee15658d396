"""A client that hangs up while a cell runs: the cell goes on, and what it shows is told to whoever asks next."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.long_sandbox import LongBackend, LongSandbox
from tests.sockets.prompt_server import PromptServer
from tests.waiting import GUARD_S, until

from cellwright.gateway.app import make_app
from cellwright.gateway.connections import BoundedHead
from cellwright.pool import Pool
from cellwright.sandbox.base import Sandbox, Spec
from cellwright_kernel.wire import Image

TOKEN = "t" * 32
LONG = "# timeout_s=600\nlong"
INTERRUPTED = "The cell was interrupted. Variables set before that are kept."


@dataclass(frozen=True)
class Serving:
    """A service with one session that has executed one cell."""

    server: PromptServer
    backend: LongBackend

    @property
    def sandbox(self) -> LongSandbox:
        return self.backend.made[0]

    async def hangs_up(self, path: str, body: dict[str, Any], *, ndjson: bool = False) -> None:
        """Post as a client that hangs up once its cell runs; return when the service has noticed."""
        self.sandbox.begun.clear()
        writer = await self.posts(path, body, ndjson=ndjson)
        await self.sandbox.begun.wait()
        await self.leaves(writer)

    async def posts(self, path: str, body: dict[str, Any], *, ndjson: bool = False) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_request("POST", path, body, ndjson=ndjson))
        await writer.drain()
        return writer

    async def leaves(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        state = self.server.server_state
        await until(lambda: not (state.tasks or state.connections))

    async def said(self, code: str) -> list[str]:
        status, found = await self.answers("POST", "/execute", guide(code))
        assert status == 200, found
        return [item["text"] for item in found["output"]]

    async def answers(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_request(method, path, body))
        said = await reader.read()
        writer.close()
        head, _, content = said.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(content) if content else None

    @property
    def port(self) -> int:
        return int(self.server.servers[0].sockets[0].getsockname()[1])


def guide(code: str) -> dict[str, Any]:
    return {"session_id": "a", "language": "python", "code": code}


def _request(method: str, path: str, body: dict[str, Any] | None, *, ndjson: bool = False) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    accept = "application/x-ndjson" if ndjson else "application/json"
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nAccept: {accept}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


@asynccontextmanager
async def serving(runs: Path, backend: LongBackend) -> AsyncIterator[Serving]:
    app = make_app(Pool(Spec(), runs=runs, backend=backend), token=TOKEN, hosts=())
    server = PromptServer(uvicorn.Config(app, http=BoundedHead, port=0, log_config=None, lifespan="on"))
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(GUARD_S):
        tasks.create_task(server._serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.001)
        try:
            yield Serving(server, backend)
        finally:
            server.should_exit = True


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(tmp_path, LongBackend()) as service:
        await service.said("x = 1")
        yield service


async def test_who_waits_after_a_hang_up_is_told_everything(service: Serving) -> None:
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    waiting = asyncio.ensure_future(service.said("# wait"))
    service.sandbox.say("two")
    service.sandbox.over.set()
    assert await waiting == ["one", "two"]
    assert await service.said("# wait") == ["No cell is running. Nothing was executed."]


async def test_other_code_after_a_hang_up_is_told_that_the_cell_runs_and_what_it_has_shown(service: Serving) -> None:
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    one, still, refused = await service.said("log(2)")
    assert (one, still.startswith("Cell 2 has not ended yet: it is still running.")) == ("one", True)
    assert refused == "The code of this call was not executed. Send it again when cell 2 has ended."
    service.sandbox.say("two")
    service.sandbox.over.set()
    assert await service.said("# wait") == ["two"]


async def test_what_a_cell_showed_whose_caller_hung_up_stands_before_the_next_calls_output(service: Serving) -> None:
    await service.hangs_up("/execute", guide("long without more time"))
    service.sandbox.say("kept")
    service.sandbox.over.set()
    await until(lambda: not service.sandbox.is_running)
    await until_idle(service)
    assert await service.said("log(3)") == [
        "Cell 2, for which nobody waited any more, has ended with status ok. What it showed:",
        "kept",
        "This call itself:",
        "3",
    ]
    assert await service.said("log(3)") == ["3"]


async def test_an_interrupt_after_a_hang_up_is_answered_with_the_cell(service: Serving) -> None:
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    assert await service.said("# interrupt") == ["one", INTERRUPTED]


async def test_an_interrupt_whose_client_hangs_up_arrives(service: Serving) -> None:
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    service.sandbox.may_answer.clear()
    writer = await service.posts("/execute", guide("# interrupt"))
    await service.sandbox.asked.wait()
    await service.leaves(writer)
    service.sandbox.may_answer.set()
    assert await service.said("# wait") == ["one", INTERRUPTED]


async def test_who_hangs_up_while_he_waits_takes_nothing_with_him(service: Serving) -> None:
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    writer = await service.posts("/execute", guide("# wait"))
    await until(lambda: bool(service.server.server_state.tasks))
    await service.leaves(writer)
    service.sandbox.over.set()
    assert await service.said("# wait") == ["one"]


async def test_one_hang_up_after_another_loses_nothing(service: Serving) -> None:
    """The call that would have told of the first cell is hung up on itself."""
    service.sandbox.say("one")
    await service.hangs_up("/execute", guide(LONG))
    service.sandbox.over.set()
    await until_idle(service)
    service.sandbox.over.clear()
    service.sandbox.said[:] = []
    service.sandbox.say("two")
    await service.hangs_up("/execute", guide(LONG))
    head = "Cell 2, for which nobody waited any more, has ended with status ok. What it showed:"
    assert (await service.said("log(4)"))[:4] == [head, "one", "Cell 3 itself:", "two"]
    service.sandbox.say("three")
    service.sandbox.over.set()
    await until_idle(service)
    assert await service.said("log(4)") == [
        "Cell 3, which was still running, has ended with status ok. What it showed since:",
        "three",
        "This call itself:",
        "4",
    ]


async def test_an_answer_that_broke_off_while_it_was_sent_was_not_told(service: Serving) -> None:
    picture = Image(media_type="image/png", data=b"\x89PNG\r\n\x1a\n" + bytes(8 << 20), width=1, height=1)
    service.sandbox.said.append(picture)
    reader = socket.create_connection(("127.0.0.1", service.port))
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.sendall(_request("POST", "/execute", guide(LONG)))
    await until(lambda: service.sandbox.is_running)
    service.sandbox.over.set()
    assert await asyncio.to_thread(reader.recv, 12) == b"HTTP/1.1 200"
    reader.close()
    await until(lambda: not service.server.server_state.tasks)
    status, found = await service.answers("POST", "/execute", guide("log(5)"))
    assert (status, [item["type"] for item in found["output"]]) == (
        200,
        ["input_text", "input_image", "input_text", "input_text"],
    )


async def test_who_hangs_up_while_the_sandbox_starts_has_had_his_code_executed(tmp_path: Path) -> None:
    backend = Slow()
    async with serving(tmp_path, backend) as service:
        writer = await service.posts("/execute", guide("log('ran')"))
        await backend.asked.wait()
        writer.transport.abort()
        backend.may_start.set()
        await until(lambda: not service.server.server_state.tasks)
        await until_idle(service)
        assert (await service.said("log(6)"))[1:] == ["ran", "This call itself:", "6"]


class Slow(LongBackend):
    """Starts a sandbox when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_start = asyncio.Event(), asyncio.Event()

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        self.asked.set()
        await self.may_start.wait()
        return await super().start(spec, egress_socket=egress_socket)


@pytest.mark.parametrize("ndjson", [False, True], ids=["json", "stream"])
async def test_a_cell_over_http_whose_client_hung_up_is_waited_for_by_its_number(
    service: Serving, *, ndjson: bool
) -> None:
    cells = "/v1/sessions/a/cells"
    service.sandbox.say("one")
    await service.hangs_up(cells, {"code": "long"}, ndjson=ndjson)
    status, refusal = await service.answers("POST", cells, {"code": "2"})
    assert (status, refusal["error"]) == (
        409,
        "Cell 2 is still running in this session. Nobody waits for it now. It goes on undisturbed. Wait for it, "
        "interrupt it, or use another session.",
    )
    _, stands = await service.answers("GET", f"{cells}/2")
    assert (stands["status"], stands["outputs"][0]["text"]) == ("running", "one")
    waiting = asyncio.ensure_future(service.answers("GET", f"{cells}/2?wait_s=20"))
    service.sandbox.over.set()
    _, ended = await waiting
    assert (ended["status"], ended["outputs"]) == ("ok", stands["outputs"])
    assert await service.said("log(7)") == ["7"]


async def until_idle(service: Serving) -> None:
    while (await service.answers("GET", "/v1/sessions"))[1][0]["executing"] is not None:
        pass
