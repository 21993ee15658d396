"""The socket on which a kernel tells what a cell does, shared by all threads.

Flows in: messages from any thread. Flows out: the same on the iopub socket, each whole. Decided here: nobody waits for
a thread of its own. ZeroMQ's sockets may be used from several threads under one lock, and its own input/output thread
needs no GIL, so a message leaves even while the cell holds the GIL in C code; that also saves a change of threads per
message. The gate is that lock, and it is never entered twice: what a signal handler or a finalizer sends while a
message is being written waits until that message is whole.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import zmq

Header = dict[str, Any]

DIGESTS: Final = 1024
"""How many messages a Jupyter session remembers, so as to refuse one that comes again. It would be 65,536: in 10,000 cells
the kernel host grew by a sixth for that. Whoever can write to these sockets has the key as well."""


class Gate:
    """One lock that is not entered twice, even by the thread that holds it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.busy = False
        self.later: deque[Callable[[], None]] = deque()
        """What was asked for while busy by the busy thread itself."""
        self.on_leave: Callable[[], None] | None = None
        """Called once, by whoever leaves next: the interrupt that had to wait."""

    def held_here(self) -> bool:
        """Whether the calling thread is inside: an exception must not be thrown into it now."""
        return self.busy and self.lock._is_owned()  # type: ignore[attr-defined]

    def run(self, act: Callable[[], None]) -> None:
        """Do it alone, now or as soon as what is being done is whole."""
        with self.lock:
            if self.busy:
                self.later.append(act)
                return
            self.busy = True
            try:
                act()
            finally:
                self.busy = False
        self.left()

    def left(self) -> None:
        """Make up for what had to wait. Called after leaving, outside the lock."""
        while self.later:
            self.run(self.later.popleft())
        if self.on_leave is not None and threading.current_thread() is threading.main_thread():
            on_leave, self.on_leave = self.on_leave, None
            on_leave()

    def forget(self) -> None:
        """In a forked child: whoever held the lock does not exist here."""
        self.lock = threading.RLock()
        self.busy = False
        self.later.clear()


class Iopub:
    """What the kernel's classes take for the iopub socket (`send_multipart`), and what our own writer sends with."""

    def __init__(self, socket: Any, session: Any, gate: Gate) -> None:  # noqa: ANN401 - what ipykernel and zmq hand over
        self._socket = socket
        self._session = session
        self._pid = os.getpid()
        self.gate = gate

    def fileno(self) -> int:
        """Readable when a subscription may have come."""
        return int(self._socket.getsockopt(zmq.FD))

    def send_multipart(self, parts: list[bytes], flags: int = 0, copy: bool = True, track: bool = False) -> None:  # noqa: ARG002
        """Send one whole message, from any thread."""
        self.gate.run(lambda: self._send(parts))

    def message(self, msg_type: str, content: dict[str, Any], parent: Header, metadata: dict[str, Any]) -> None:
        """Build and send one; only with the gate entered."""
        session = self._session
        message = session.msg(msg_type, content=content, parent=parent, metadata=metadata)
        self._send(session.serialize(message, ident=msg_type.encode()))

    def greet(self) -> None:
        """Answer waiting subscriptions with `iopub_welcome`; only with the gate entered."""
        while not self._socket.closed and self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            frame = self._socket.recv(zmq.NOBLOCK)
            if frame[:1] == b"\x01":
                content = {"subscription": frame[1:].decode("utf-8", "replace")}
                message = self._session.msg("iopub_welcome", content=content)
                self._send(self._session.serialize(message, ident=frame[1:] or None))

    def close(self, linger_ms: int) -> None:
        """Close the socket, and return when what was sent has left, or after `linger_ms`."""
        context = self._socket.context
        with self.gate.lock:
            self._socket.close(linger=linger_ms)
        context.term()

    def _send(self, parts: list[bytes]) -> None:
        if self._socket.closed or os.getpid() != self._pid:  # in a forked child the socket is its parent's
            return
        self._socket.send_multipart(parts)
        # the socket's descriptor is edge-triggered and sending takes the edge, so look after each send (0.5 µs)
        if self._socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            self.greet()
