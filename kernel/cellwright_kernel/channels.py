"""The kernel host's end of one kernel's sockets: requests go in on `shell`; replies, states and outputs come back.

Flows in: requests; what the kernel sends. Flows out: its messages, each handed on whole, in the order of its socket.
Decided here: that a kernel which sends without end leaves the event loop to others in between.

`jupyter_client`'s asynchronous client does the same with some tasks and futures a message, 1 ms a cell; its `Session`
makes and signs the messages here as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import zmq
from jupyter_client.session import Session

from cellwright_kernel import messages
from cellwright_kernel.messages import Message
from cellwright_kernel.wire import Channel

_AT_ONCE: Final = 32
"""Messages of one socket that are handed on before others get their turn."""
_TURN_S: Final = 0.01
"""And as long as that: text of 64 KiB takes a millisecond, and a picture several."""
_SILENCE_S: Final = 0.05
"""After so much of it nothing more is on its way; what was sent is here already."""

Take = Callable[[Message], None]


class Channels:
    """The sockets of one kernel.

    Args:
        prefix: Path that the sockets' names begin with.
        numbers: Channel -> what stands behind the prefix and a hyphen.
        key: Signs messages.
    """

    def __init__(self, prefix: Path, numbers: dict[Channel, int], key: str) -> None:
        self._prefix = prefix
        self._numbers = numbers
        self._session = Session(key=key.encode())
        self._context: zmq.Context[Any] = zmq.Context()
        self._shell = self._connected("shell", zmq.DEALER)
        self._iopub = self._connected("iopub", zmq.SUB)
        self._iopub.subscribe(b"")
        self._came = asyncio.Event()
        self._takes: dict[zmq.Socket[Any], Take] = {}

    @property
    def session_id(self) -> str:
        """What the headers of our own requests carry."""
        return str(self._session.session)

    def socket(self, channel: Channel) -> Path:
        """Return the Unix socket of a channel."""
        return Path(f"{self._prefix}-{self._numbers[channel]}")

    def send(self, kind: str, content: Message, metadata: Message | None = None) -> str:
        """Send a request; return the id by which messages name it."""
        message = self._session.msg(kind, content, metadata=metadata)
        messages.send(self._shell, self._session.serialize(message))
        if self._shell in self._takes:
            asyncio.get_running_loop().call_soon(self._read, self._shell)
        return str(message["header"]["msg_id"])

    def listen(self, on_reply: Take, on_message: Take) -> None:
        """Hand on what comes, until `hush`: replies, and what the kernel publishes."""
        loop = asyncio.get_running_loop()
        for socket, take in ((self._shell, on_reply), (self._iopub, on_message)):
            self._takes[socket] = take
            loop.add_reader(int(socket.getsockopt(zmq.FD)), self._read, socket)
            loop.call_soon(self._read, socket)

    def hush(self) -> None:
        """Hand nothing on any more; what comes waits."""
        for socket in self._takes:
            asyncio.get_running_loop().remove_reader(int(socket.getsockopt(zmq.FD)))
        self._takes = {}

    async def silence(self) -> None:
        """Wait until nothing has come for a moment; it must be listened to."""
        try:
            while True:
                self._came.clear()
                async with asyncio.timeout(_SILENCE_S):
                    await self._came.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """Close the sockets; what was not sent by then is not sent. Safe to call twice."""
        self.hush()
        self._context.destroy(linger=0)

    def _connected(self, channel: Channel, kind: int) -> zmq.Socket[Any]:
        socket: zmq.Socket[Any] = self._context.socket(kind)
        if kind == zmq.DEALER:
            socket.identity = self._session.bsession
        socket.connect(f"ipc://{self.socket(channel)}")
        return socket

    def _read(self, socket: zmq.Socket[Any]) -> None:
        take = self._takes.get(socket)
        if take is None:
            return
        until = time.monotonic() + _TURN_S
        try:
            for _ in range(_AT_ONCE):
                if time.monotonic() > until:
                    break
                if not messages.is_waiting(socket):
                    return
                self._came.set()
                found = messages.read(self._session, socket.recv_multipart())
                if found is not None:
                    take(found[1])
        except BaseException:
            asyncio.get_running_loop().call_soon(self._read, socket)
            raise
        asyncio.get_running_loop().call_soon(self._read, socket)
