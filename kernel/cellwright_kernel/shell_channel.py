"""A kernel's side of the shell channel: requests come in one after the other, and each is answered.

Flows in: requests of the kernel host and of whoever is attached. Flows out: busy, what the handler sends, idle; each
with the request's header as parent. Decided here: that one request is handled at a time, each in a task of its own, so
that nothing which a request does to its task ends the channel.

ipykernel's own way is a stream, a queue, a lock and a callback of Tornado, with every hook that a subclass might have;
that costs 0.5 ms a cell, of which nothing is used here.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import zmq
from ipykernel.kernelbase import Kernel
from jupyter_client.session import Session, extract_header
from tornado.ioloop import IOLoop
from traitlets import Any as AnyTrait

from cellwright_kernel import messages
from cellwright_kernel.iopub import Iopub
from cellwright_kernel.messages import Message

_SAID_S: Final = 0.2
"""What was said last has left the process by then."""

Handle = Callable[[list[bytes], Message], Coroutine[Any, Any, None]]


class ShellChannel:
    """The shell socket of a kernel; what ipykernel's classes take for its stream.

    Args:
        socket: Bound.
        session: Makes and checks messages.
    """

    def __init__(self, socket: zmq.Socket[Any], session: Session) -> None:
        self._socket = socket
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self._pid = os.getpid()
        self.io_loop = IOLoop.current()

    def serve(self, handle: Handle, at_once: Callable[[Message], None], coming: Callable[[], None]) -> None:
        """Handle requests from now on, in the event loop of this thread.

        Args:
            handle: Handles one.
            at_once: Is called first, in the moment when the request is read; it raises nothing.
            coming: Is called even before, when a request is there and not yet read; it raises nothing.
        """
        self._handle, self._at_once, self._coming = handle, at_once, coming
        self._loop = asyncio.get_event_loop()
        self._loop.add_reader(int(self._socket.getsockopt(zmq.FD)), self._read)
        self._loop.call_soon(self._read)

    def send_multipart(self, frames: Sequence[bytes], **_options: object) -> None:
        """Send one whole message."""
        messages.send(self._socket, frames)

    def close(self, linger: int) -> None:
        """Handle no more; what was sent has `linger` milliseconds to leave."""
        self._loop.remove_reader(int(self._socket.getsockopt(zmq.FD)))
        self._socket.close(linger=linger)

    def _read(self) -> None:
        while self._task is None and not self._socket.closed and messages.is_waiting(self._socket):
            self._coming()
            found = messages.read(self._session, self._socket.recv_multipart())
            if found is not None:
                self._at_once(found[1])
                self._task = self._loop.create_task(self._handle(*found))
                self._task.add_done_callback(self._handled)

    def _handled(self, task: asyncio.Task[None]) -> None:
        if os.getpid() != self._pid:  # a child that a cell forked, and an interrupt took out of it: there is one kernel
            # it would ask ZeroMQ without end, which in another process answers nothing but "interrupted"
            os._exit(0)
        self._task = None
        if not task.cancelled():
            task.exception()  # whoever handles it has logged it
        self._read()


class Answering(Kernel):  # type: ignore[misc]
    """ipykernel's kernel, with a shell channel of ours."""

    shell_stream: ShellChannel = AnyTrait()
    control_stream: Any
    iopub_socket: Any  # an Iopub, which ipykernel takes for a socket
    session: Session

    def start(self) -> None:
        """Serve the channels."""
        self.io_loop = IOLoop.current()
        self._control_lock = asyncio.Lock()
        self.control_stream.on_recv(self.dispatch_control, copy=False)
        self.shell_stream.serve(self.answer, self.before, self.coming)
        self._say("starting", {})

    async def answer(self, identities: list[bytes], request: Message) -> None:
        """Handle one request."""
        kind = request["header"].get("msg_type")
        header = extract_header(request)
        handler = self.shell_handlers.get(kind)
        try:
            self.set_parent(identities, request)
            self._say("busy", header)
            if handler is not None:
                handled = handler(self.shell_stream, identities, request)
                if inspect.isawaitable(handled):
                    await handled
        except KeyboardInterrupt:
            self.log.error("A request was interrupted where nothing should be")  # noqa: TRY400 - children of a fork bomb say it, too
        except Exception as error:
            self.log.exception("A request failed")
            if kind == "execute_request":  # nobody will answer it, nor the next one
                self._give_up(header, error)
                return
        self._say("idle", header)

    def _give_up(self, header: Message, error: Exception) -> None:
        """Say why a cell could not be executed, and end: it would be waited for until its deadline, and killed then."""
        why = f"{type(error).__name__}: {error}"
        said = (
            f"The kernel itself failed at this cell ({why}), and ends. Usually a cell has taken from it what it needs, such as open "
            "files, or has changed what it works with."
        )
        content = {"ename": type(error).__name__, "evalue": str(error), "traceback": [said]}
        iopub: Iopub = self.iopub_socket
        iopub.gate.run(lambda: iopub.message("error", content, header, {}))
        asyncio.get_running_loop().call_later(_SAID_S, os._exit, 1)

    def before(self, request: Message) -> None:
        """Do what comes even before busy is said; nothing, unless a kernel has something to do."""

    def coming(self) -> None:
        """Do what can be done before a request is read; nothing, as above."""

    def _say(self, state: str, header: Message) -> None:
        iopub: Iopub = self.iopub_socket
        iopub.gate.run(lambda: iopub.message("status", {"execution_state": state}, header, {}))
