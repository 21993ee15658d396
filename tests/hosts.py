"""A kernel host as a process of the tests', seen from outside: started on a socket of ours, asked through its door, let go of.

Flows in: settings. Flows out: the host while it runs; afterwards nothing of it may be left. Decided here: that it runs on the inside's
own runtime.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2

from cellwright.sandbox.runtime import kernel_folder, runtime_folder
from cellwright_kernel import processes
from cellwright_kernel.wire import (
    EVENT,
    ClosedEvent,
    Event,
    Execute,
    HostSettings,
    Language,
    Output,
    Ready,
    Text,
    gather,
    in_order,
)
from tests.waiting import GUARD_S

PYTHON = runtime_folder() / "bin" / "python"


class Host:
    """One kernel host, from outside."""

    def __init__(self, process: subprocess.Popen[bytes], client: httpx2.AsyncClient) -> None:
        self.process = process
        self.client = client
        self.events: list[Event] = []
        self.number = 0
        """Of the last cell."""

    async def ready(self) -> Ready:
        return Ready.model_validate_json((await self.client.get("/ready", params={"timeout_s": "20"})).content)

    async def late(self) -> list[Event]:
        return [EVENT.validate_json(line) for line in (await self.client.get("/late")).content.splitlines()]

    async def execute(
        self, code: str, deadline_s: float = 20.0, language: Language = "python"
    ) -> tuple[str, list[Output]]:
        self.number += 1
        request = Execute(number=self.number, language=language, code=code, deadline_s=deadline_s)
        self.events = []
        outputs: dict[int, Output] = {}
        async with self.client.stream("POST", "/cells", content=request.model_dump_json()) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                self.events.append(EVENT.validate_json(line))
                gather(outputs, self.events[-1])
        assert isinstance(self.events[-1], ClosedEvent)
        return self.events[-1].status, list(in_order(outputs))

    async def texts(self, code: str, deadline_s: float = 20.0) -> list[str]:
        _, outputs = await self.execute(code, deadline_s)
        return [o.text if isinstance(o, Text) else o.media_type for o in outputs]


@contextmanager
def started(
    home: Path, settings: HostSettings, door: Path, stdin: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a host on a socket of ours; afterwards nothing that it started may be left, neither process nor file."""
    own_tmp = door.parent / "tmp"
    own_tmp.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(door))
        listener.listen()
        settings = settings.model_copy(update={"door": f"fd:{listener.fileno()}", "home": str(home)})
        process = subprocess.Popen(
            # the inside's own runtime: pyautogui is there, and not in the environment of the tests
            [str(PYTHON), "-W", "error", "-m", "cellwright_kernel", "--settings", settings.model_dump_json()],
            stdin=stdin,
            pass_fds=[listener.fileno()],
            env={"PATH": os.environ["PATH"], "TMPDIR": str(own_tmp), "PYTHONPATH": str(kernel_folder())},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Let go of its leash, which tells it to stop."""
    assert process.stdin is not None
    process.stdin.close()


def left_of(home: Path) -> list[str]:
    """Return the command lines of live processes whose home this is."""
    mark = f"HOME={home}".encode()
    return [p.command for p in processes._table() if p.state != "Z" and mark in processes._read(p.pid, "environ")]


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has had."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


@asynccontextmanager
async def running(tmp_path: Path, **settings: object) -> AsyncIterator[Host]:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's path has at most 107 bytes
        door = Path(short) / "door"
        made = HostSettings.model_validate({"door": "", "desktop": False, **settings})
        with started(home, made, door) as process:
            transport = httpx2.AsyncHTTPTransport(uds=str(door))
            async with httpx2.AsyncClient(transport=transport, base_url="http://inside", timeout=30) as client:
                host = Host(process, client)
                yield host
            let_go(process)
            assert process.wait(GUARD_S) == 0
        assert left_of(home) == []
        assert list((Path(short) / "tmp").iterdir()) == []
