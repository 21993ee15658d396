"""The Node process of one kernel, and the pipes to it.

Flows in: requests and interrupts. Flows out: messages, handed on in the order in which they came, what child processes
wrote to Node's own output, and how the process ended. Decided here: how Node is started; that what its children wrote
stands after what Node said before it started them, and before what it says next; that Node dies with this process; and
what is said when its heap was full. The pipes that children write to: `children.py`.

The pipes: requests and interrupts go in and messages come out as JSON, one a line. What goes in is read by a thread of
Node's that listens while a cell runs, and the end of such a pipe is the end of Node. A cell goes past it to the main
thread, straight, which saves 0.2 ms, and the thread is told of it only with its interrupt; but no more once anything was
interrupted: a stop that comes in the moment in which such a cell is read may leave that way unusable, and the thread
keeps requests back meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import resource
import select
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import orjson
import playwright

from cellwright_kernel.javascript.children import LATEST, ChildPipes
from cellwright_kernel.javascript.clipboard import ClipboardCalls
from cellwright_kernel.javascript.helper_calls import HelperCalls
from cellwright_kernel.javascript.people import PeopleCalls
from cellwright_kernel.javascript.publisher import Publisher
from cellwright_kernel.javascript.screen import ScreenCalls
from cellwright_kernel.javascript.secrets import SecretCalls
from cellwright_kernel.javascript.silent_pages import SilentPagesCalls
from cellwright_kernel.javascript.ui import UiCalls
from cellwright_kernel.processes import NODE_BYTES
from cellwright_kernel.repeatable import node_flags
from cellwright_kernel.secrets.placeholder import for_node

_DRIVER: Final = Path(playwright.__file__).parent / "driver"
_RUNNER: Final = Path(__file__).parent / "runner.cjs"
_FLAGS: Final = (
    # without it, stopping an endless loop in a timer's callback ends the process: "async hook stack has become corrupted"
    "--no-force-async-hooks-checks",
    "--expose-internals",  # for the parser that Node's own REPL uses
    "--disable-warning=ExperimentalWarning",
    # of garbage that is not yet collected: over 1,000 cells Node grew by 9 to 19 %, with this by 4 to 9 %, as fast as before
    "--max-semi-space-size=8",
)
_HEAP_SHARE: Final = 0.75
"""Of what is left, what may lie in V8's heap: at its own limit Node first looks harder for garbage, at the system's it
ends."""
_PIPE_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 256 * 1024
_TURNS_OF_SIGNAL: Final = 3
"""Turns of asyncio's loop: one finds that a signal has come, the next reads of which kind, and one calls its handler."""
_CHILD: Final = b'{"type":"child"}'
"""The line by which Node says that a child process is being started."""
_CHILD_WITH_PIPES: Final = b'{"type":"child","pipes":true}'
"""The same, of one that writes to its cell's pipes."""
_LAST_WORDS: Final = re.compile(r"<--- Last few GCs|FATAL ERROR:|# Fatal error|----- Native stack trace")
"""How Node begins when it reports its own end; that is for our log, not for the model."""
_OF_INSPECTOR: Final = "Waiting for the debugger to disconnect...\n"
"""What Node says when a cell kills it while it waits for an evaluation that was interrupted."""
_HEAP_FULL: Final = "heap out of memory"
_HEAP_SENTENCE: Final = (
    "Node ended because its heap was full: the code kept more in memory than the JavaScript kernel can hold. "
    "Keep less at a time, or write to files."
)

Message = dict[str, Any]


class Node:
    """One Node process.

    Args:
        publisher: Takes what cells say.
    """

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.screen = ScreenCalls()
        self._ui = UiCalls()
        self._calls = HelperCalls(
            self._tell,
            {
                "screen": self.screen,
                "clipboard": ClipboardCalls(),
                "ui": self._ui,
                "people": PeopleCalls(),
                "secrets": SecretCalls(),
                "silent_pages": SilentPagesCalls(),
            },
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: _Pipes | None = None
        self._rest = bytearray()  # of a line that has not come whole
        self._answers: dict[int, asyncio.Future[Message | None]] = {}
        self._children: ChildPipes | None = None
        self._last_words = ""
        self._requests = 0
        self._cell = 0
        """Number of the request by which a cell was begun last."""
        self._interrupted = 0
        """Serial number of the latest cell that was interrupted."""
        self._straight: Message | None = None  # the cell that went past the listening thread last
        self.ended = asyncio.Event()
        """Set once it has ended and all that it said was handed on."""

    async def start(self) -> None:
        """Start it; what is asked before it is up waits in the pipe."""
        self._pipes = pipes = _Pipes()
        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        handed = [pipes.requests[0], pipes.messages[1], pipes.control[0], pipes.cells[0]]
        command = [
            str(_DRIVER / "node"),
            *_FLAGS,
            *node_flags(),
            *_heap_flag(),
            str(_RUNNER),
            *map(str, handed),
            for_node(),
        ]
        self._process = subprocess.Popen(  # noqa: ASYNC220 - returns at once
            command,
            stdin=subprocess.DEVNULL,
            stdout=out[1],
            stderr=err[1],
            pass_fds=handed,
            env=_environment(),
            # no session of its own: Linux shares time by session, and a busy machine made each cell wait for two shares
            process_group=0,
        )
        for fd in (*handed, out[1], err[1]):
            os.close(fd)
        loop = asyncio.get_running_loop()
        self._children = ChildPipes(self._write_raw, self._on_raw)
        self._children.add(out[0], "stdout")
        self._children.add(err[0], "stderr")
        os.set_blocking(pipes.messages[0], False)
        loop.add_reader(pipes.messages[0], self._read)
        await pipes.open_requests()

    def ask(self, request: Message) -> asyncio.Future[Message | None]:
        """Send a request, and return its answer to come; None when Node has ended."""
        assert self._pipes is not None  # noqa: S101 - for the type checker; it was started
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        if self.ended.is_set():
            answer.set_result(None)
            return answer
        self._requests += 1
        request = request | {"id": self._requests}
        if request["do"] == "run":
            self._cell = self._requests
            request["pipes"] = self._children_pipes.begin(request["cell"])
        if request["do"] == "run" and not self._interrupted and self._pipes.send_straight(request):
            self._straight = request
        else:
            self._pipes.send(request)
        self._answers[self._requests] = answer
        return answer

    def wake(self) -> None:
        """Tell it that a request is to come: that takes it 0.06 ms, which a cell need not wait for."""
        if self._pipes is not None and not (self._interrupted or self.ended.is_set()):
            self._pipes.wake()

    def interrupt(self, serial: int) -> None:
        """Stop a cell, wherever it is; nothing if it is over."""
        self.screen.cancel()
        self._ui.cancel()
        self._interrupted = serial
        straight, self._straight = self._straight, None
        if self._pipes is not None:
            self._pipes.interrupt(serial, straight)

    def _tell(self, message: Message) -> None:
        """Send what is no request: nothing answers it."""
        if self._pipes is not None and not self.ended.is_set():
            self._pipes.send(message)

    async def end(self) -> int:
        """End it if it runs; return its return code, negative for a signal."""
        assert self._process is not None  # noqa: S101 - for the type checker; it was started
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        return await asyncio.to_thread(self._process.wait)

    def _read(self) -> None:
        """Take what Node has said; what its children have written comes first, unless they were started only then."""
        assert self._pipes is not None  # noqa: S101 - as above
        data = _read_some(self._pipes.messages[0])
        lines = self._whole_lines(data or b"")
        if _CHILD not in lines and _CHILD_WITH_PIPES not in lines:
            self._children_pipes.read()
        for line in lines:
            self._take(line)
        if data == b"":
            self._at_end()

    def _whole_lines(self, data: bytes) -> list[bytes]:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        return lines

    def _take(self, line: bytes) -> None:
        message = _message(line)
        if message["type"] == "child":
            self._children_pipes.read()
            if "pipes" in message:
                self._children_pipes.used()
        elif message["type"] == "ask":
            self._calls.take(message)
        elif message["type"] == "failed":
            self._tell_of_failure(message["cell"])
        elif message["type"] != "answer":
            self._publisher.take(message)
        else:
            self._children_pipes.read()
            if message["id"] == self._cell:
                self._children_pipes.end()
            self._publisher.flush()
            self._answer(message["id"], message["content"])

    def _tell_of_failure(self, serial: int, turns: int = _TURNS_OF_SIGNAL) -> None:
        """Tell Node whether a cell was interrupted before it failed.

        An interrupt is sent to this process first and to the cell's children after it: if one of these died of it, it
        has reached this process, but perhaps not Node, which then takes the child's end for an error of the cell's.
        """
        if turns:
            asyncio.get_running_loop().call_soon(self._tell_of_failure, serial, turns - 1)
        else:
            self._tell({"do": "fail", "cell": serial, "interrupted": serial <= self._interrupted})

    def _answer(self, number: int, content: Message | None) -> None:
        answer = self._answers.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(content)

    def _on_raw(self) -> None:
        if not self.ended.is_set():
            self._read()  # what Node has said may have to come first
        self._children_pipes.read()

    def _write_raw(self, serial: int, name: str, text: str, missing: int) -> None:
        text = text if serial != LATEST else self._without_last_words(name, text)
        if text:
            self._publisher.write(serial or self._publisher.latest, name, text, missing)

    def _without_last_words(self, name: str, text: str) -> str:
        """Keep back what Node itself says of its end."""
        text = text.replace(_OF_INSPECTOR, "")
        if self._last_words:
            self._last_words += text if name == "stderr" else ""
            return text if name == "stdout" else ""
        found = _LAST_WORDS.search(text) if name == "stderr" else None
        if not found:
            return text
        self._last_words = text[found.start() :]
        return text[: found.start()].rstrip("\n")

    @property
    def _children_pipes(self) -> ChildPipes:
        assert self._children is not None  # noqa: S101 - for the type checker; it was started
        return self._children

    def _at_end(self) -> None:
        assert self._pipes is not None  # noqa: S101 - as above
        asyncio.get_running_loop().remove_reader(self._pipes.messages[0])
        self._children_pipes.read_rest()
        self._children_pipes.end()
        if self._last_words:
            os.write(2, self._last_words.encode(errors="replace"))
        if _HEAP_FULL in self._last_words:
            self._publisher.notice(_HEAP_SENTENCE)
        self._publisher.flush()
        self._pipes.close()
        self.ended.set()
        for number in tuple(self._answers):
            self._answer(number, None)


class _Pipes:
    """The four pipes; of each, one end is Node's."""

    def __init__(self) -> None:
        self.requests, self.messages, self.control, self.cells = (os.pipe2(os.O_CLOEXEC) for _ in range(4))
        os.set_blocking(self.cells[1], False)
        for _, writing in (self.requests, self.messages):
            with contextlib.suppress(PermissionError):  # a user has so much room for pipes and no more
                fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._transport: asyncio.WriteTransport | None = None

    async def open_requests(self) -> None:
        pipe = os.fdopen(self.requests[1], "wb", buffering=0)
        self._transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.Protocol, pipe)

    def send(self, request: Message) -> None:
        assert self._transport is not None  # noqa: S101 - for the type checker; it was opened
        self._transport.write(_line(request))

    def send_straight(self, request: Message) -> bool:
        """Send a cell to the main thread; False if it must go the other way."""
        line = _line(request)
        if len(line) > select.PIPE_BUF:  # it may come in pieces, and a piece may be lost in a stop
            return False
        try:
            os.write(self.cells[1], line)
        except OSError:  # it is full, or Node has just ended
            return False
        return True

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # as above
            os.write(self.cells[1], b"\n")  # a line with nothing in it

    def interrupt(self, serial: int, request: Message | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.control[1], _line({"serial": serial, "request": request}))

    def close(self) -> None:
        os.close(self.messages[0])
        os.close(self.cells[1])
        if self._transport is not None:
            self._transport.close()


def _line(request: Message) -> bytes:
    try:
        return orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # code with a lone surrogate
        return json.dumps(request).encode() + b"\n"


def _message(line: bytes) -> Message:
    try:
        message: Message = orjson.loads(line)
    except ValueError:  # a text with a lone surrogate, which came as an escape
        message = json.loads(line)
    return message


def _read_some(fd: int) -> bytes | None:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None


def _heap_flag() -> list[str]:
    """Hold V8's heap to less than this process may have, unless somebody chose a size (`--env NODE_OPTIONS=...`)."""
    most, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or "--max-old-space-size" in os.environ.get("NODE_OPTIONS", ""):
        return []
    return [f"--max-old-space-size={max(64, int((most - NODE_BYTES) * _HEAP_SHARE) // 1024**2)}"]


def _environment() -> dict[str, str]:
    """This process's, in which Node heeds the proxy variables and programs that cells start find `node`."""
    path = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_DRIVER}"
    return {**os.environ, "PATH": path, "NODE_USE_ENV_PROXY": "1", "NO_COLOR": "1"}
