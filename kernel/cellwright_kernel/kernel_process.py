"""One kernel process, and the Jupyter messages to and from it.

Flows in: a command, code to execute. Flows out: messages, handed on as they arrive, and how the process ended.
Decided here: how a kernel is started and when it counts as up (it answered, and its outputs reach us); that sockets are
Unix sockets in a private folder; that a process that has ended is read empty before that is said; and that what it starts
goes first where memory runs out, and gives way where it is a crowd.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from jupyter_client.connect import write_connection_file

from cellwright_kernel import processes
from cellwright_kernel.channels import Channels, Take
from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.messages import Message
from cellwright_kernel.python.last_pipes import LastPipes
from cellwright_kernel.python.last_words import LastWords, read_begun, read_last_words
from cellwright_kernel.wire import Channel, KernelConnection, Language

COMMANDS: Final[Mapping[Language, Sequence[str]]] = {
    # -P: what lies in the home must not stand in for a module of the kernel; it is on the path for cells
    "python": (sys.executable, "-P", "-m", "cellwright_kernel.python", "-f", "{connection}"),
    "javascript": (sys.executable, "-P", "-m", "cellwright_kernel.javascript", "-f", "{connection}"),
}
"""How a kernel of each language is started; `{connection}` is its connection file."""

_UP_S: Final = 15.0
"""A Python kernel is up in 0.5 s on an idle machine."""
_ASK_EVERY_S: Final = 0.25
_LOOK_EVERY_S: Final = 0.5
"""A fork bomb needs about a second to use up what it may have."""

_CONNECTION: Final = "connection.json"


class KernelProcess:
    """One kernel.

    Args:
        language: What it speaks.
        generation: Counts the processes of this language from 1.
        command: Program and arguments.
        folder: A private folder for this language's sockets and log.
        groups: What puts it, and all that it starts, into control groups; see `Child.start`.
    """

    def __init__(
        self, language: Language, generation: int, command: Sequence[str], folder: Path, groups: Sequence[int] = ()
    ) -> None:
        self.language = language
        self.generation = generation
        self._command = command
        self._groups = groups
        self._folder = folder / f"{language}-{generation}"
        self._key = os.urandom(16).hex()
        self._channels: Channels | None = None
        self._child: Child | None = None
        self._last_pipes: LastPipes | None = None
        self._last_run = 0  # number of the last run of text that came; see last_words.py
        self._read_empty = asyncio.Event()
        self._read_empty.set()

    @property
    def mark(self) -> str:
        """What the environment of all it starts carries."""
        return f"{self.language}-{self.generation}"

    @property
    def pid(self) -> int:
        """Its process id; -1 before it was started."""
        return self._child.pid if self._child else -1

    @property
    def connection(self) -> KernelConnection:
        """What a Jupyter client of somebody else's must know."""
        return KernelConnection(kernel_id=hashlib.sha256(self._key.encode()).hexdigest()[:16], key=self._key)

    def socket(self, channel: Channel) -> Path:
        """Return the Unix socket of a channel; it exists once the kernel was started."""
        return self._connected.socket(channel)

    def is_of_others(self, request_header: Message) -> bool:
        """Whether a request was sent by another client than the kernel host; without a session it is nobody's."""
        return request_header.get("session") not in (None, "", self._connected.session_id)

    @property
    def running(self) -> bool:
        """False once the process has ended."""
        return self._child is not None and self._child.running

    def how_it_ended(self) -> str:
        """Return how it ended, or that it runs, as a sentence."""
        return self._child.how_it_ended() if self._child else "It was not started."

    @property
    def was_killed(self) -> bool:
        """True once it was ended by SIGKILL."""
        return self._child is not None and self._child.was_killed

    async def start(self, environment: Mapping[str, str], home: str) -> None:
        """Start it and return once it answers.

        Raises:
            NotUp: with how it ended and the end of its log; nothing is left running.
        """
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        connection = self._folder / _CONNECTION
        prefix = self._folder / "s"
        try:
            self._folder.mkdir(mode=0o700, parents=True)
            self._last_pipes = LastPipes(self._folder)
            written = write_connection_file(str(connection), ip=str(prefix), key=self._key.encode(), transport="ipc")[1]
        except OSError as error:
            raise NotUp(
                f"Its own files could not be written to {self._folder}: {error.strerror}. Usually the disk is full, and what "
                "fills it are files that a cell has left there. Delete them, in a cell of the other language if need be."
            ) from error
        command = ["env", "-C", home, *(part.format(connection=connection) for part in self._command)]
        self._child = await Child.start(
            f"{self.language}-kernel",
            command,
            environment={**environment, processes.MARK: self.mark},
            folder=self._folder,
            groups=self._groups,
        )
        processes.goes_first(self.pid, processes.KERNEL_SCORE)
        try:
            # connecting before the sockets exist would cost zmq's reconnect interval
            await self._child.wait_for(self._sockets_exist, f"{self.language} kernel", _UP_S)
            numbers = {channel: int(written[f"{channel}_port"]) for channel in get_args(Channel)}  # type: ignore[literal-required]
            self._channels = Channels(prefix, numbers, self._key)
            await self._child.wait_for(self._answers, f"{self.language} kernel that answers", _UP_S)
        except BaseException:
            await self.end()
            raise

    def execute(self, code: str, cell: int) -> str:
        """Send code; return the id by which messages name it."""
        content = {
            "code": code,
            "silent": False,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        return self._connected.send("execute_request", content, {"cellwright": {"cell": cell}})

    async def read(self, on_reply: Take, on_message: Take) -> None:
        """Hand on what it sends until it has ended and everything it sent was handed on.

        Args:
            on_reply: Gets replies.
            on_message: Gets what it publishes: states and outputs; in the end also text that it wrote and did not send.
        """
        self._read_empty.clear()
        try:
            await self._read(on_reply, on_message)
        finally:
            self._read_empty.set()

    async def _read(self, on_reply: Take, on_message: Take) -> None:
        assert self._child is not None  # noqa: S101 - for the type checker; it was started

        def on_published(message: Message) -> None:
            self._last_run = max(self._last_run, _run_of(message))
            on_message(message)

        self._connected.listen(on_reply, on_published)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(self._keep_crowds_back())
            await self._child.ended()
            keeping.cancel()
        await self._connected.silence()
        self._connected.hush()
        box = self._folder / f"{_CONNECTION}.last"
        for words in read_last_words(box, self._last_run):
            on_message(_as_message(words))
        for words in self._last_pipes.left() if self._last_pipes else ():
            on_message(_as_message(words))
        on_message(_busy_with(read_begun(box)))  # its own word for that may be lost as well

    async def _keep_crowds_back(self) -> None:
        there = processes.count()
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            before, there = there, processes.count()
            if there - before > processes.CROWD:
                processes.have_group_give_way(self.pid)
            elif there != before:
                for process in processes.of_kernel(self.pid, self.mark):
                    processes.goes_first(process.pid, processes.CELLS_SCORE)

    def ask(self) -> str:
        """Send a question that every kernel answers when it is free; return its id."""
        return self._connected.send("kernel_info_request", {})

    def interrupt(self, since: float) -> dict[int, str]:
        """Send SIGINT to it and to what it has started since a moment, never to Playwright's driver.

        Returns:
            Process ids and command lines of what it has started.
        """
        if not self.running:
            return {}
        # the kernel first: code that waits for a child is to see the interrupt, not the child's end
        children = processes.of_kernel(self.pid, self.mark, since=since)
        are_many = len(children) > processes.MANY  # they would leave no time to anybody, and are killed in any case
        commands = {} if are_many else processes.commands(children)
        self._send(signal.SIGINT)
        processes.send(children, signal.SIGSTOP if are_many else signal.SIGINT)
        return commands

    def kill(self) -> None:
        """Send SIGKILL to it."""
        if self.running:
            self._send(signal.SIGKILL)

    async def kill_children(self, since: float = 0.0) -> dict[int, str]:
        """Kill what it has started since a moment; return process ids and command lines."""
        are_many = self.running and len(processes.of_kernel(self.pid, self.mark, since=since)) > processes.MANY
        try:
            if are_many:  # it may be what starts them
                self._send(signal.SIGSTOP)
            return await processes.kill_all(self.pid, self.mark, since=since)
        finally:
            if are_many:
                self._send(signal.SIGCONT)

    def children(self) -> list[str]:
        """Return the command lines of what it has started and still runs."""
        return [command for process in processes.of_kernel(self.pid, self.mark) if (command := process.command)]

    async def end(self) -> None:
        """End it and everything it has started; safe to call twice."""
        if self._child is not None:
            self.kill()
            await self._child.stop(gently_s=0)
            await self.kill_children()
            await self._read_empty.wait()
        if self._last_pipes is not None:
            self._last_pipes.close()
        if self._channels is not None:
            self._channels.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def _sockets_exist(self) -> bool | None:
        try:
            names = await asyncio.to_thread(os.listdir, self._folder)
        except FileNotFoundError:
            raise NotUp(f"Its own files in {self._folder} were removed while it started. Restart it.") from None
        return len([name for name in names if name.startswith("s-")]) >= 5 or None

    async def _answers(self) -> bool | None:
        """Ask once; True when the reply and the published `idle` have both come."""
        replied, idle = asyncio.Event(), asyncio.Event()

        def on_reply(message: Message) -> None:
            if _parent(message) == question:
                replied.set()

        def on_message(message: Message) -> None:
            if _parent(message) == question and message["content"].get("execution_state") == "idle":
                idle.set()

        question = self.ask()
        self._connected.listen(on_reply, on_message)
        try:
            async with asyncio.timeout(_ASK_EVERY_S):
                await replied.wait()
                await idle.wait()
        except TimeoutError:
            return None
        finally:
            self._connected.hush()
        return True

    @property
    def _connected(self) -> Channels:
        assert self._channels is not None  # noqa: S101 - for the type checker; it was started
        return self._channels


def _run_of(message: Message) -> int:
    note = message["metadata"].get("cellwright")
    number = note.get("seq") if isinstance(note, dict) else None
    return number if isinstance(number, int) else 0


def _as_message(words: LastWords) -> Message:
    shown = {"data": {"text/plain": words.text}, "metadata": {"cellwright": {"source": "log"}}}
    is_log = words.kind == "log"
    return {
        "header": {"msg_type": "display_data" if is_log else "stream"},
        "parent_header": {"msg_id": words.msg_id},
        "metadata": {},
        "content": shown if is_log else {"name": words.kind, "text": words.text},
    }


def _busy_with(msg_id: str) -> Message:
    return {
        "header": {"msg_type": "status"},
        "parent_header": {"msg_id": msg_id},
        "metadata": {},
        "content": {"execution_state": "busy"},
    }


def _parent(message: Message) -> str:
    return str(message["parent_header"].get("msg_id"))
