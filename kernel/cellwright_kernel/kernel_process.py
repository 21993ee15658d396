"""One kernel process, and the Jupyter messages to and from it.

Flows in: a command, code to execute. Flows out: messages, handed on as they arrive, and how the process ended.
Decided here: how a kernel is started and when it counts as up (it answered, and its outputs reach us); that sockets are
Unix sockets in a private folder; that a process that has ended is read empty before that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty
from typing import Any, Final

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from cellwright_kernel import processes
from cellwright_kernel.child import Child, NotUp
from cellwright_kernel.iopub import DIGESTS
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
_DRAIN_S: Final = 0.05
"""Silence after which a dead kernel's sockets count as empty; what it had sent is here already."""

_CONNECTION: Final = "connection.json"
_MALFORMED: Final = (ValueError, TypeError, KeyError)
"""What reading raises at a wrong signature or no message at all: code in a kernel can write to its sockets."""

Message = dict[str, Any]


class KernelProcess:
    """One kernel.

    Args:
        language: What it speaks.
        generation: Counts the processes of this language from 1.
        command: Program and arguments.
        folder: A private folder for this language's sockets and log.
    """

    def __init__(self, language: Language, generation: int, command: Sequence[str], folder: Path) -> None:
        self.language = language
        self.generation = generation
        self._command = command
        self._folder = folder / f"{language}-{generation}"
        self._key = os.urandom(16).hex()
        self._client = AsyncKernelClient()
        self._client.session.digest_history_size = DIGESTS
        self._child: Child | None = None
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
        return Path(f"{self._client.ip}-{getattr(self._client, f'{channel}_port')}")

    def is_of_others(self, request_header: Message) -> bool:
        """Whether a request was sent by another client than the kernel host; without a session it is nobody's."""
        return request_header.get("session") not in (None, "", self._client.session.session)

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
        try:
            self._folder.mkdir(mode=0o700, parents=True)
            write_connection_file(str(connection), ip=str(self._folder / "s"), key=self._key.encode(), transport="ipc")
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
        )
        processes.goes_first(self.pid, processes.KERNEL_SCORE)
        try:
            # connecting before the sockets exist would cost zmq's reconnect interval
            await self._child.wait_for(self._sockets_exist, f"{self.language} kernel", _UP_S)
            self._client.load_connection_file(str(connection))
            self._client.start_channels(stdin=False, hb=False, control=False)
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
        message = self._client.session.msg("execute_request", content, metadata={"cellwright": {"cell": cell}})
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    async def read(self, on_reply: Callable[[Message], None], on_message: Callable[[Message], None]) -> None:
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

    async def _read(self, on_reply: Callable[[Message], None], on_message: Callable[[Message], None]) -> None:
        assert self._child is not None  # noqa: S101 - for the type checker; it was started

        def on_published(message: Message) -> None:
            self._last_run = max(self._last_run, _run_of(message))
            on_message(message)

        async with asyncio.TaskGroup() as group:
            readers = [
                group.create_task(_hand_on(self._client.get_shell_msg, on_reply)),
                group.create_task(_hand_on(self._client.get_iopub_msg, on_published)),
                group.create_task(self._keep_crowds_back()),
            ]
            await self._child.ended()
            for reader in readers:
                reader.cancel()
        await _drain(self._client.get_iopub_msg, on_published)
        await _drain(self._client.get_shell_msg, on_reply)
        box = self._folder / f"{_CONNECTION}.last"
        for words in read_last_words(box, self._last_run):
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
        return str(self._client.kernel_info())

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
        self._client.stop_channels()
        if self._client.context is not None:
            self._client.context.destroy(linger=0)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def _sockets_exist(self) -> bool | None:
        names = await asyncio.to_thread(os.listdir, self._folder)
        return len([name for name in names if name.startswith("s-")]) >= 5 or None

    async def _answers(self) -> bool | None:
        """Ask once; True when the reply and the published `idle` have both come."""
        question = self._client.kernel_info()
        got_reply = got_idle = False
        try:
            async with asyncio.timeout(_ASK_EVERY_S):
                while not got_reply:
                    got_reply = _parent(await self._client.get_shell_msg()) == question
                while not got_idle:
                    message = await self._client.get_iopub_msg()
                    got_idle = _parent(message) == question and message["content"].get("execution_state") == "idle"
        except TimeoutError:
            return None
        return True


async def _hand_on(receive: Callable[[], Awaitable[Message]], hand_on: Callable[[Message], None]) -> None:
    while True:
        try:
            message = await receive()
        except _MALFORMED:
            continue
        if _is_message(message):
            hand_on(message)


async def _drain(receive: Callable[..., Awaitable[Message]], hand_on: Callable[[Message], None]) -> None:
    while True:
        try:
            message = await receive(timeout=_DRAIN_S)
        except Empty:
            return
        except _MALFORMED:
            continue
        if _is_message(message):
            hand_on(message)


def _is_message(message: Message) -> bool:
    return all(isinstance(message.get(part), dict) for part in ("header", "parent_header", "metadata", "content"))


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
