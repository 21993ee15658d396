"""What lies outside of a sandbox and is to be out of its reach: servers, sockets, files, processes, shared memory, the service.

Flows in: a folder, and a second sandbox. Flows out: what the probes are told of it all, as a dictionary; and whether anything
of it was touched. Decided here: everything is real and answers out here, so that silence inside means that a wall is there.
"""

from __future__ import annotations

import ctypes
import getpass
import hashlib
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.serving import Service, alive, descendants, running_service

from cellwright.sandbox.place import sockets_folder
from cellwright.sandbox.runtime import chromium_path
from cellwright.session import Session

MARK = f"cellwright-mark-of-{os.getpid()}"
"""Stands in the environment of the caller, in the arguments of a process, and in files."""
OTHER_MARK = f"cellwright-other-of-{os.getpid()}"
SECRET_NAME = "CELLWRIGHT_TEST_SECRET"
VALUES = {name: f"{name}-{secrets.token_urlsafe(18)}" for name in ("KEPT", "TYPED", "BOUND")}
"""Values of the attacker's secrets: one is never used, one is typed, one is bound to a host. None is told to the probes as it is."""
MADE_AT = time.time() - 1
_IPC_CREAT = 0o1000
_KEY = 0x43570000 + os.getpid() % 0xFFFF

PREPARE_OTHER = """
import ctypes, os, socket, subprocess, threading
for folder in ('/home/agent', '/tmp', '/dev/shm', '/run/kernel-host', '/run/browser'): open(folder + '/other.txt', 'w').write({mark!r})
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget({key}, 4096, 0o1666) >= 0
child = subprocess.Popen(['sleep', '3600'], env={{'OTHER': {mark!r}}})
abstract = socket.socket(socket.AF_UNIX); abstract.bind(chr(0) + {mark!r}); abstract.listen()
server = socket.create_server(('127.0.0.1', 0))
from Xlib.display import Display
display_ = Display(); root = display_.screen().root
root.change_property(display_.intern_atom('OTHER_SANDBOX'), display_.intern_atom('STRING'), 8, {mark!r}.encode())
display_.sync()
await page.goto('data:text/html,<title>' + {mark!r} + '</title>')
log(server.getsockname()[1]); log(os.environ['CELLWRIGHT_CDP'].rpartition(':')[2])
"""


@dataclass
class Outside:
    """What is out here."""

    facts: dict[str, Any]
    """What the probes are told, as `outside`."""
    service: Service
    heard: list[str] = field(default_factory=list)
    """What came to any of the servers."""
    pids: set[int] = field(default_factory=set)

    def touched(self) -> list[str]:
        """Return what something has reached, or ended."""
        return self.heard + [f"{pid} is gone" for pid in self.pids - alive(self.pids)]

    def missing(self) -> list[str]:
        """Return what of the files and folders that the probes look for is not there, out here."""
        paths = [path for name in ("files", "folders", "sockets") for path in self.facts[name]]
        doors = [path for path in self.facts["other_paths"] if Path(path).exists()]  # of others too, which may end
        return [path for path in paths if not Path(path).exists()] + ([] if doors else ["a door"])


@contextmanager
def everything_outside(folder: Path, other: Session, prepared: str) -> Iterator[Outside]:
    """Set up what is to be out of reach.

    Args:
        folder: For the service's own files.
        other: The second sandbox.
        prepared: What it said to `PREPARE_OTHER`.
    """
    other_port, other_cdp = map(int, prepared.split())
    with ExitStack() as stack:
        service = stack.enter_context(running_service(folder))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outside.")))
        place.chmod(0o755)
        (place / "file.txt").write_text(MARK)
        named = place / "socket"
        outside = Outside({}, service)
        streams = [_tcp("127.0.0.1"), _tcp("::"), _unix(str(named)), _unix(f"\0{MARK}")]
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("0.0.0.0", 0))
        named.chmod(0o777)
        stack.enter_context(_listening(outside, streams, datagrams))
        child = stack.enter_context(subprocess.Popen(["sleep", "3600"], env={"MARK": MARK, "PATH": os.environ["PATH"]}))
        stack.callback(child.kill)
        stack.enter_context(_shared_memory())
        outside.pids = {child.pid, service.pid, os.getpid(), other.info.pid}
        outside.facts |= {
            "mark": MARK,
            "turned": {name: value[::-1] for name, value in VALUES.items()},
            "made_at": MADE_AT,
            "user": getpass.getuser() if os.getuid() else "somebody",
            "files": [str(place / "file.txt"), str(Path(__file__).resolve()), str(Path.home()), sys.prefix],
            "ports": [streams[0].getsockname()[1], streams[1].getsockname()[1]],
            "udp": datagrams.getsockname()[1],
            "addresses": _own_addresses(),
            "resolvers": re.findall(r"^nameserver\s+(\S+)", _text("/etc/resolv.conf"), re.MULTILINE),
            "abstract": [MARK, *_abstract_names()],
            "sockets": [str(named)],
            "pids": sorted(outside.pids),
            "chromium": str(chromium_path().parent),
            "own_key": _KEY + 1,
            "service_port": int(service.url.rpartition(":")[2].strip("/")),
            "token_hash": hashlib.sha256(service.token.encode()).hexdigest(),
            "folders": [str(service.state), str(folder)],
            "other_mark": OTHER_MARK,
            "other_key": _KEY,
            "other_port": other_port,
            "other_cdp": other_cdp,
            "other_paths": _door_paths(),
        }
        yield outside


def prepare_other() -> str:
    """Return the code with which the second sandbox makes itself findable."""
    return PREPARE_OTHER.format(mark=OTHER_MARK, key=_KEY)


def _tcp(host: str) -> socket.socket:
    is_any = host == "::"
    return socket.create_server((host, 0), family=socket.AF_INET6 if is_any else socket.AF_INET, dualstack_ipv6=is_any)


def _unix(name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    return listener


@contextmanager
def _listening(outside: Outside, streams: list[socket.socket], datagrams: socket.socket) -> Iterator[None]:
    """Answer what comes, and write it down; `hello` is this side's own."""
    stopping, stop = socket.socketpair()

    def answer() -> None:
        while True:
            ready, _, _ = select.select([*streams, datagrams, stopping], [], [])
            for one in ready:
                if one is stopping:
                    return
                if one is datagrams:
                    outside.heard.append(f"a datagram: {one.recv(100)!r}")
                    continue
                taken, _ = one.accept()
                with taken:
                    taken.settimeout(1)
                    try:
                        said = taken.recv(100)
                    except OSError:
                        said = b""
                    if said == b"hello":
                        taken.sendall(b"here")
                    else:
                        outside.heard.append(f"{one.getsockname()!r} was reached: {said!r}")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        stop.send(b"x")
        thread.join()
        for one in (*streams, datagrams, stop, stopping):
            one.close()


@contextmanager
def _shared_memory() -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(_KEY + 1, 4096, _IPC_CREAT | 0o666)
    assert segment >= 0
    try:
        yield
    finally:
        libc.shmctl(segment, 0, None)


def _own_addresses() -> list[str]:
    """Return this machine's addresses that others see, and where its packets go first."""
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    gateways = [line.split()[2] for line in _text("/proc/net/route").splitlines()[1:] if line.split()[1] == "0" * 8]
    return [address for address in listed if ":" not in address][:3] + [
        socket.inet_ntoa(bytes.fromhex(gateway)[::-1]) for gateway in gateways[:1]
    ]


def _abstract_names() -> list[str]:
    """Return abstract sockets that somebody listens at out here, of displays among them, but none of a sandbox's own name."""
    names = {line.split()[7][1:] for line in _text("/proc/net/unix").splitlines() if " @" in line}
    return sorted(name for name in names if name.isprintable() and not name.startswith("/tmp/.X11-unix/"))[:20]


def _door_paths() -> list[str]:
    """Return where doors and folders of our sandboxes are out here; of those whose owner may end them meanwhile, too."""
    doors = list(sockets_folder().glob("*/door"))
    assert doors, "no door is there"
    return [*map(str, doors), *(str(door.parent) for door in doors)]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def hello_to(where: tuple[str, int] | str) -> bytes:
    """Say hello to one of the servers, from out here."""
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    with socket.socket(family) as asking:
        asking.settimeout(5)
        asking.connect(where)
        asking.sendall(b"hello")
        return asking.recv(10)


def owner(pid: int) -> int:
    """Return the uid that a process has out here."""
    return Path(f"/proc/{pid}").stat().st_uid


def inside(pid: int) -> set[int]:
    """Return all processes of a sandbox, by the id of its outermost one."""
    return {pid} | descendants(pid)


def id_inside(pid: int) -> str:
    """Return a process's id in its innermost namespace."""
    return _text(f"/proc/{pid}/status").partition("NSpid:")[2].partition("\n")[0].split()[-1]


def is_kernel_host(pid: int) -> bool:
    """Return whether a process is the kernel host."""
    return "cellwright_kernel\0--settings" in _text(f"/proc/{pid}/cmdline")
