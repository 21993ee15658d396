"""`python -m cellwright_kernel.javascript -f CONNECTION`: one JavaScript kernel.

Flows in: a Jupyter connection file. Flows out: a kernel on its sockets, until a shutdown_request or the end of its Node.
Decided here: which sockets there are, that one event loop serves them all, since no cell ever runs in this process; and
that the process ends the way its Node ended, so that whoever started it learns how.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import zmq
from ipykernel.heartbeat import Heartbeat
from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream

from cellwright_kernel.iopub import DIGESTS, Gate, Iopub
from cellwright_kernel.javascript.kernel import JavaScriptKernel
from cellwright_kernel.javascript.node import Node
from cellwright_kernel.javascript.publisher import Publisher

_LAST_MESSAGES_MS = 500


class Sockets:
    """The sockets that a connection file names.

    Args:
        connection: What is in the file.
    """

    def __init__(self, connection: dict[str, Any]) -> None:
        self._connection = connection
        self._context = zmq.Context()
        key, scheme = connection["key"].encode(), connection["signature_scheme"]
        self.session = Session(key=key, signature_scheme=scheme, digest_history_size=DIGESTS)
        self.shell = ZMQStream(self._bound(zmq.ROUTER, "shell"))
        self.control = ZMQStream(self._bound(zmq.ROUTER, "control"))
        self.stdin = self._bound(zmq.ROUTER, "stdin")
        published = self._bound(zmq.XPUB, "iopub", zmq.Context())
        self.iopub = Iopub(published, self.session, Gate())
        address = (connection["transport"], connection["ip"], connection["hb_port"])
        self._heartbeat = Heartbeat(zmq.Context(), address)
        self._heartbeat.start()

    def close(self) -> None:
        """Close them once what was sent has left."""
        self.iopub.close(_LAST_MESSAGES_MS)
        self._heartbeat.context.term()
        for stream in (self.shell, self.control):
            stream.close(linger=_LAST_MESSAGES_MS)
        self.stdin.close(linger=0)
        self._context.term()

    def _bound(self, kind: int, name: str, context: Any = None) -> Any:
        socket = (context or self._context).socket(kind)
        socket.linger = 1000
        if kind == zmq.XPUB:
            socket.sndhwm = 0  # nothing is dropped when the reader is slow: what a cell may send is bounded elsewhere
        if kind == zmq.ROUTER:
            socket.router_handover = 1
        ip, port = self._connection["ip"], self._connection[f"{name}_port"]
        separator = "-" if self._connection["transport"] == "ipc" else ":"
        socket.bind(f"{self._connection['transport']}://{ip}{separator}{port}")
        return socket


async def serve(connection: dict[str, Any]) -> int:
    """Serve until told to stop, or until Node has ended; return how Node ended, as a process's return code.

    Args:
        connection: What is in the connection file.
    """
    sockets = Sockets(connection)
    loop = asyncio.get_running_loop()
    publisher = Publisher(sockets.iopub)
    node = Node(publisher)
    await node.start()
    log = logging.getLogger("cellwright_kernel.javascript")
    kernel = JavaScriptKernel(
        session=sockets.session,
        shell_stream=sockets.shell,
        control_stream=sockets.control,
        iopub_socket=sockets.iopub,
        stdin_socket=sockets.stdin,
        log=log,
        node=node,
        publisher=publisher,
    )
    loop.add_reader(sockets.iopub.fileno(), lambda: sockets.iopub.gate.run(sockets.iopub.greet))
    loop.add_signal_handler(signal.SIGINT, kernel.interrupt)
    kernel.start()
    try:
        await kernel.stopped_or(node.ended)
        told = kernel.is_stopping
        code = await node.end()
        publisher.close()
    finally:
        loop.remove_reader(sockets.iopub.fileno())
        sockets.close()
    return 0 if told else code


def main(arguments: list[str]) -> None:
    """Run one kernel until it is told to stop, and end as its Node did."""
    parser = argparse.ArgumentParser(
        prog="python -m cellwright_kernel.javascript", description="One JavaScript kernel."
    )
    parser.add_argument("-f", dest="connection_file", required=True, help="the Jupyter connection file")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    code = asyncio.run(serve(json.loads(Path(options.connection_file).read_text())))
    if code < 0:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
