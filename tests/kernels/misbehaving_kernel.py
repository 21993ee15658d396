"""A kernel that misbehaves on request. It speaks Jupyter's messages and nothing else.

    python misbehaving_kernel.py -f CONNECTION

The code of a cell is one line: a word of the table below and its arguments. `MISBEHAVE` in the environment makes the
start itself go wrong: `slow_start SECONDS`, `die_at_start`, `never_answer`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zmq

Message = dict[str, Any]
DELIMITER = b"<IDS|MSG>"


class Session:
    """Jupyter's messages on a socket. Jupyter's own takes longer to load than most tests take."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._id = uuid.uuid4().hex

    def send(
        self,
        socket: zmq.Socket[bytes],
        kind: str,
        content: Message | bytes,
        parent: Message,
        ident: bytes | list[bytes] = b"",
    ) -> None:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "username": "kernel", "session": self._id}
        header |= {"date": datetime.now(UTC).isoformat(), "version": "5.3"}
        said = [header, parent.get("header", {}), {}, content]
        parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in said]
        sign = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            sign.update(part)
        whose = ident if isinstance(ident, list) else [ident] if ident else []
        socket.send_multipart([*whose, DELIMITER, sign.hexdigest().encode(), *parts])

    def recv(self, socket: zmq.Socket[bytes]) -> tuple[list[bytes], Message]:
        frames = socket.recv_multipart()
        at = frames.index(DELIMITER)
        header, parent, metadata, content = map(json.loads, frames[at + 2 : at + 6])
        return frames[:at], {"header": header, "parent_header": parent, "metadata": metadata, "content": content}


class MisbehavingKernel:
    """One kernel on its five sockets."""

    def __init__(self, connection: Message) -> None:
        assert connection["signature_scheme"] == "hmac-sha256"
        self.session = Session(connection["key"])
        context = zmq.Context()
        self.shell, self.iopub = context.socket(zmq.ROUTER), context.socket(zmq.PUB)
        self.iopub.sndhwm = 0  # as with our own kernel: nothing is dropped when the reader is slow
        others = [context.socket(kind) for kind in (zmq.ROUTER, zmq.ROUTER, zmq.REP)]
        for name, socket in zip(
            ("shell", "iopub", "stdin", "control", "hb"), (self.shell, self.iopub, *others), strict=True
        ):
            socket.bind(f"ipc://{connection['ip']}-{connection[f'{name}_port']}")
        self.publishing = threading.Lock()  # ZeroMQ loses messages of a socket that two threads use at once
        self.request: Message = {}
        self.ident: list[bytes] = []

    def serve(self) -> None:
        """Answer until killed."""
        while True:
            self.ident, self.request = self.session.recv(self.shell)
            match self.request["header"]["msg_type"]:
                case "kernel_info_request":
                    self.state("busy")
                    self.reply("kernel_info_reply", {"status": "ok", "protocol_version": "5.3"})
                    self.state("idle")
                case "execute_request":
                    word, *arguments = self.request["content"]["code"].split()
                    WORDS[word](self, *arguments)

    def state(self, state: str) -> None:
        self.publish("status", {"execution_state": state})

    def write(self, text: str, parent: Message | None = None) -> None:
        self.publish("stream", {"name": "stdout", "text": text}, parent)

    def publish(self, kind: str, content: Message, parent: Message | None = None) -> None:
        with self.publishing:
            self.session.send(self.iopub, kind, content, parent=parent or self.request, ident=kind.encode())

    def reply(self, kind: str = "execute_reply", content: Message | None = None) -> None:
        self.session.send(self.shell, kind, content or {"status": "ok"}, parent=self.request, ident=self.ident)

    def behave(self, text: str = "fine") -> None:
        """Do as a kernel should."""
        self.state("busy")
        self.write(text)
        self.reply()
        self.state("idle")

    def ignore_sigint(self) -> None:
        """Never end, whatever is asked."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.state("busy")
        self.write("working")
        while True:
            time.sleep(60)

    def be_interruptible(self) -> None:
        """End with an error when interrupted, as a kernel should."""
        self.state("busy")
        self.write("waiting")
        try:
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            self.publish("error", {"ename": "KeyboardInterrupt", "evalue": "", "traceback": ["KeyboardInterrupt"]})
            self.reply(content={"status": "error"})
            self.state("idle")

    def be_deaf_afterwards(self) -> None:
        """Obey the interrupt, then never answer anything again."""
        self.be_interruptible()
        time.sleep(60)

    def die(self, how: str) -> None:
        """End the process: by a status, or by the name of a signal."""
        self.state("busy")
        self.write("before")
        time.sleep(0.05)  # a sent message leaves from another thread of ours; a kernel that dies gives no guarantee
        if how.isdigit():
            os._exit(int(how))
        os.kill(os.getpid(), signal.Signals[how])

    def die_after_reply(self) -> None:
        """Answer, and be gone before the next cell."""
        self.behave()
        time.sleep(0.05)
        os._exit(0)

    def flood(self, count: str, size: str) -> None:
        """Publish many messages as fast as possible."""
        self.state("busy")
        for _ in range(int(count)):
            self.write("x" * int(size) + "\n")
        self.write("END\n")
        self.reply()
        self.state("idle")

    def write_after_idle(self) -> None:
        """Write from a thread once the cell is over, under its own cell's name."""
        request = self.request
        threading.Timer(0.2, lambda: self.write("late\n", request)).start()
        self.behave()

    def idle_before_reply(self) -> None:
        """Do things in the unusual order."""
        self.state("busy")
        self.write("first")
        self.state("idle")
        time.sleep(0.2)
        self.reply()

    def lose_idle(self) -> None:
        """Never say idle."""
        self.state("busy")
        self.write("no idle")
        self.reply()

    def lose_reply(self) -> None:
        """Never reply, though idle."""
        self.behave_without_reply()

    def behave_without_reply(self) -> None:
        self.state("busy")
        self.state("idle")

    def forge(self) -> None:
        """Send what is no message, and messages of nonsense."""
        self.iopub.send_multipart([b"noise"])
        self.iopub.send_multipart([b"stream", b"<IDS|MSG>", b"wrong", b"{}", b"{}", b"{}", b"{}"])
        self.publish("stream", {"name": 1, "text": 2})
        self.session.send(self.iopub, "stream", b'["no", "mapping"]', parent=self.request)
        self.session.send(self.iopub, "stream", {"text": "x"}, parent={"header": {"msg_id": ["unhashable"]}})
        self.behave("still here")

    def leave_child(self, seconds: str) -> None:
        """Start a child in a session of its own, then never end."""
        subprocess.Popen(["sleep", seconds], start_new_session=True)
        self.ignore_sigint()

    def leave_orphan(self, seconds: str) -> None:
        """Start a child whose parent is gone, then wait to be interrupted."""
        subprocess.run(["sh", "-c", f"setsid sleep {seconds} </dev/null >/dev/null 2>&1 &"], check=True)
        self.be_interruptible()

    def start_server(self, seconds: str) -> None:
        """Start a child that is meant to stay, and end well."""
        subprocess.Popen(["sleep", seconds])
        self.behave()


WORDS: dict[str, Callable[..., None]] = {
    name: member for name, member in vars(MisbehavingKernel).items() if callable(member) and not name.startswith("_")
}


def main() -> None:
    match os.environ.get("MISBEHAVE", "").split():
        case ["slow_start", seconds]:
            time.sleep(float(seconds))
        case ["die_at_start"]:
            sys.exit("a start-up file was broken")
        case ["never_answer"]:
            time.sleep(60)
    connection = json.loads(Path(sys.argv[sys.argv.index("-f") + 1]).read_text())
    MisbehavingKernel(connection).serve()


if __name__ == "__main__":
    main()
