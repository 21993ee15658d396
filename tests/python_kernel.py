"""A real Python kernel for tests: its process, and what it says about each cell.

Flows in: code. Flows out: what was told, in order, as short tuples: `("stdout", text)`, `("log", text)`,
`("result", text)`, `("image/png", (width, height))`, `("error", text)`. Decided here: runs of one stream are one tuple, as
in a cell's outputs; what belongs to an earlier cell is kept apart, with that cell's number.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from PIL import Image

_ANSWER_S = 30.0


@dataclass(slots=True)
class Told:
    """What a kernel told about one cell."""

    status: str = ""
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    late: list[tuple[int, str, Any]] = field(default_factory=list)
    """What arrived during this cell and belongs to an earlier one: its number, kind, value."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """This cell's own messages, as they came."""
    reply: dict[str, Any] = field(default_factory=dict)

    def text(self, kind: str) -> str:
        """All text of one kind."""
        return "".join(value for name, value in self.outputs if name == kind)


class PythonKernel:
    """A running kernel. `kernel.run(code)` is one cell; cells are numbered from 1."""

    def __init__(self, process: subprocess.Popen[bytes], client: BlockingKernelClient, connection: Path) -> None:
        self.process = process
        self.client = client
        self.connection = connection
        self.cells: dict[str, int] = {}
        self.highest_seq = 0

    def run(
        self, code: str, *, when: Callable[[Told], bool] | None = None, do: Callable[[], None] | None = None
    ) -> Told:
        """Run a cell to its end; `do` is called once, when something has come after which `when` is true."""
        told = Told()
        msg_id = self.send(code)
        idle = False
        while not (idle and told.status):
            message = self.told_next(_ANSWER_S)
            idle = self._take(message, msg_id, told) or idle
            if when is not None and do is not None and when(told):
                when = None
                do()
            if idle and not told.status:
                told.reply = self.reply_next(_ANSWER_S)["content"]
                told.status = told.reply["status"]
        return told

    def send(self, code: str) -> str:
        """Ask for a cell without waiting; returns its msg_id."""
        number = len(self.cells) + 1
        content = {"code": code, "silent": False, "allow_stdin": False, "stop_on_error": True}
        message = self.client.session.msg("execute_request", content, metadata={"cellwright": {"cell": number}})
        self.client.shell_channel.send(message)
        msg_id = str(message["header"]["msg_id"])
        self.cells[msg_id] = number
        return msg_id

    def interrupt(self) -> None:
        """SIGINT to the kernel's process."""
        os.kill(self.process.pid, signal.SIGINT)

    def interrupt_when_running(self, code: str) -> Told:
        """Run a cell that says "on" as soon as an interrupt may come, and interrupt it then."""
        return self.interrupt_at_on(f"log('on')\n{code}")

    def interrupt_at_on(self, code: str) -> Told:
        """Run a cell, and interrupt it when it says "on"."""
        return self.run(code, when=lambda told: ("log", "on") in told.outputs, do=self.interrupt)

    def drain(self, quiet_s: float = 0.2) -> Told:
        """What still comes until nothing has come for a while."""
        told = Told()
        while True:
            try:
                self._take(self.told_next(quiet_s), "", told)
            except Empty:
                return told

    def told_next(self, within_s: float = _ANSWER_S) -> dict[str, Any]:
        """The next message it publishes; `Empty` when none comes."""
        return _receive(self.client, self.client.iopub_channel.socket, within_s)

    def reply_next(self, within_s: float = _ANSWER_S) -> dict[str, Any]:
        """The next reply; `Empty` when none comes."""
        return _receive(self.client, self.client.shell_channel.socket, within_s)

    def _take(self, message: dict[str, Any], msg_id: str, told: Told) -> bool:
        parent = message["parent_header"].get("msg_id", "")
        kind = message["msg_type"]
        self.highest_seq = max(self.highest_seq, message["metadata"].get("cellwright", {}).get("seq", 0))
        if kind == "status":
            return parent == msg_id and message["content"]["execution_state"] == "idle"
        name, value = _short(message)
        if parent != msg_id:
            told.late.append((self.cells.get(parent, 0), name, value))
            return False
        told.messages.append(message)
        if name in {"stdout", "stderr"} and told.outputs and told.outputs[-1][0] == name and len(value) < 60_000:
            value = told.outputs.pop()[1] + value
        told.outputs.append((name, value))
        return False


@contextmanager
def python_kernel(
    folder: Path, environment: Mapping[str, str] | None = None, python: Path = Path(sys.executable)
) -> Iterator[PythonKernel]:
    """Start a kernel whose home is `folder`, and leave no process and no socket behind."""
    connection = folder / "kernel.json"
    write_connection_file(str(connection), ip=str(folder / "s"), transport="ipc", key=b"")
    log = (folder / "kernel.log").open("wb")
    process = subprocess.Popen(
        [python, "-m", "cellwright_kernel.python", "-f", str(connection)],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    log.close()
    client = BlockingKernelClient()
    client.load_connection_file(str(connection))
    client.session.pack = lambda value: json.dumps(value, default=str).encode()  # also lone surrogates
    _wait_for_sockets(folder, process)
    client.start_channels(stdin=False, hb=False, control=False)
    kernel = PythonKernel(process, client, connection)
    try:
        _wait_until_up(client)
        yield kernel
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)
        process.kill()
        process.wait()


def without_underlines(text: str) -> str:
    """A traceback without the lines that differ between versions of Python."""
    return re.sub(r"^[ |]*[~^]+\n", "", text, flags=re.MULTILINE)


def _receive(client: BlockingKernelClient, socket: Any, within_s: float) -> dict[str, Any]:
    """The client's own ways to receive make an event loop per thread."""
    if not socket.poll(int(within_s * 1000)):
        raise Empty
    _, message = client.session.recv(socket)
    assert message is not None
    return message


def _short(message: dict[str, Any]) -> tuple[str, Any]:
    """The tuple for one message."""
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            return content["name"], content["text"]
        case "error":
            return "error", "\n".join(content["traceback"])
        case "display_data" | "execute_result" | "update_display_data":
            data, note = content["data"], content["metadata"]["cellwright"]
            assert len(data) == 1, f"one form each, got {list(data)}"
            if "text/plain" in data:
                return note["source"], data["text/plain"]
            ((media_type, text),) = data.items()
            image = Image.open(_file(base64.b64decode(text)))
            image.load()
            assert image.size == (note["width"], note["height"])
            return media_type, image.size
        case other:
            return other, content


def _file(data: bytes) -> Any:
    from io import BytesIO

    return BytesIO(data)


def _wait_for_sockets(folder: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _ANSWER_S
    while len(list(folder.glob("s-*"))) < 5:
        assert process.poll() is None, (folder / "kernel.log").read_text()
        assert time.monotonic() < end
        time.sleep(0.01)


def _wait_until_up(client: BlockingKernelClient) -> None:
    """Until it has answered, and what it publishes reaches us."""
    end = time.monotonic() + _ANSWER_S
    while time.monotonic() < end:
        msg_id = client.kernel_info()
        _receive(client, client.shell_channel.socket, _ANSWER_S)
        try:
            while True:
                message = _receive(client, client.iopub_channel.socket, 0.25)
                about = message["parent_header"].get("msg_id")
                if about == msg_id and message["content"].get("execution_state") == "idle":
                    return
        except Empty:
            continue
    raise AssertionError("what the kernel publishes does not arrive")
