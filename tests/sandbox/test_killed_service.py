"""`cellwright serve`, killed with everything in use: after five seconds no process, mount, control group or socket file is left.

In use are a browser, a cell that runs, a process that left its group and session, a way out, and a memory group, where
this machine lets us make one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from tests.engines import name_of, names, needs
from tests.sandbox.test_egress import greeter  # noqa: F401 - a fixture
from tests.serving import alive, descendants

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

LEFT_S = 5.0
STARTED_S = 60.0
CODE = """
import subprocess, time, urllib.request
subprocess.Popen(['setsid', 'sleep', '4321'])
await page.goto('data:text/html,<title>here</title>')
log(urllib.request.urlopen('http://127.0.0.1:PORT/').read().decode())
while True: time.sleep(0.01)
"""


@dataclass(frozen=True)
class Held:
    """What one service holds of the machine."""

    processes: set[int]
    """Those in its sandbox's namespaces among them: a mount in there is gone with the last of them."""
    marks: set[str]
    """Parts of the paths of whatever could be mounted for it out here."""
    groups: set[Path]
    sockets: set[Path]

    def left(self) -> dict[str, set[object]]:
        """Return what of it is still there."""
        return {
            "processes": {*alive(self.processes)},
            "mounts": {*mounted(self.marks)},
            "groups": {group for group in self.groups if group.exists()},
            "sockets": {path for one in self.sockets for path in (one, one.parent) if path.exists()},
        }


@pytest.mark.parametrize(
    "backend", ["bubblewrap", pytest.param("podman", marks=needs("podman"))], ids=["bubblewrap", "podman"]
)
def test_a_killed_service_leaves_nothing(backend: str, greeter: int, tmp_path: Path) -> None:  # noqa: F811
    with running(backend, greeter, tmp_path) as service:
        name = name_of("podman", first_process(service)) if backend == "podman" else ""
        held = holds(processes_of(service, name), marks_of(name))
        has_group = "for the whole sandbox by" in memory_limit(service)
        os.kill(service.process.pid, signal.SIGKILL)
        killed = time.monotonic()
    assert len(held.processes) > 10
    assert {path.name for path in held.sockets} == {"door", "proxy.sock"}
    assert bool(held.groups) or not has_group
    while any(held.left().values()) and time.monotonic() < killed + LEFT_S:
        time.sleep(0.05)
    assert held.left() == {"processes": set(), "mounts": set(), "groups": set(), "sockets": set()}
    assert name == "" or name not in names("podman")


@dataclass(frozen=True)
class Running:
    """A service, and a client of it."""

    process: subprocess.Popen[str]
    client: httpx2.Client


@contextmanager
def running(backend: str, port: int, state: Path) -> Iterator[Running]:
    """Start a service, and a session in it whose cell never ends; yield once the cell has said something."""
    environment = {**os.environ, "CELLWRIGHT_STATE": str(state)}
    options = ["--port", "0", "--sandbox", backend, "--allow", f"127.0.0.1:{port}"]
    command = [sys.executable, "-m", "cellwright", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            while process.stdout.readline() != "ready\n":
                assert process.poll() is None
            headers = {"Authorization": f"Bearer {(state / 'token').read_text().strip()}"}
            with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=STARTED_S) as client:
                client.post("/v1/sessions", json={"session_id": "s"}).raise_for_status()
                begin(client, CODE.replace("PORT", str(port)))
                yield Running(process, client)
        finally:
            process.kill()


def begin(client: httpx2.Client, code: str) -> None:
    """Begin a cell, and return once it has said what it got from outside."""
    cell = client.post("/v1/sessions/s/cells", json={"code": code, "deadline_s": 300, "wait_s": 0}).json()
    end = time.monotonic() + STARTED_S
    while "hello" not in str(cell["outputs"]):
        assert (cell["status"], time.monotonic() < end) == ("running", True), cell
        cell = client.get("/v1/sessions/s/cells/1", params={"wait_s": 0.1}).json()


def first_process(service: Running) -> int:
    """Return the first process of its sandbox."""
    (session,) = service.client.get("/v1/sessions").json()
    pid: int = session["sandbox"]["pid"]
    return pid


def memory_limit(service: Running) -> str:
    (session,) = service.client.get("/v1/sessions").json()
    limit: str = session["sandbox"]["limits"]["memory_bytes"]
    return limit


def processes_of(service: Running, name: str) -> set[int]:
    """Return all processes of the service; with podman, those of a name too, since a sandbox is none of its children."""
    first = first_process(service)
    found = {service.process.pid, first} | descendants(service.process.pid) | descendants(first)
    if name:
        found |= {pid for pid in every_process() if name in read(f"/proc/{pid}/cmdline")}
    inside = namespaces_of(found) - namespaces_of({os.getpid()})
    assert len(inside) >= 3
    return found | {pid for pid in every_process() if namespaces_of({pid}) & inside}


def marks_of(name: str) -> set[str]:
    """Return what the paths of a podman sandbox's mounts have in common."""
    if not name:
        return set()
    asked = ["podman", "inspect", name, "--format", "{{.Id}} {{.GraphDriver.Data.MergedDir}}"]
    return set(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split())


def holds(processes: set[int], marks: set[str]) -> Held:
    """Return what these processes hold."""
    groups = {path for pid in processes for path in groups_of(pid) if path.exists()}
    sockets = sockets_of(processes)
    return Held(processes, marks | {str(path.parent) for path in sockets}, groups, sockets)


def groups_of(pid: int) -> set[Path]:
    """Return the folders of the control groups that are made for sandboxes and that a process is in."""
    found = set()
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cellwright-" in path or "libpod-" in path:
            folder = Path("/sys/fs/cgroup") / controllers / path.lstrip("/")
            found.add(folder)
    return found


def sockets_of(processes: set[int]) -> set[Path]:
    """Return the paths of the Unix sockets that these processes have open."""
    inodes = set()
    for pid in processes:
        for descriptor in entries(f"/proc/{pid}/fd"):
            target = link(f"/proc/{pid}/fd/{descriptor}")
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {
        Path(row[7])
        for row in rows
        if len(row) > 7 and row[6] in inodes and row[7].startswith("/") and "cellwright" in row[7]
    }


def namespaces_of(processes: set[int]) -> set[str]:
    """Return the namespaces that processes are in."""
    kinds = ("mnt", "pid", "net", "ipc", "user")
    return {name for pid in processes for kind in kinds if (name := link(f"/proc/{pid}/ns/{kind}"))}


def mounted(marks: set[str]) -> set[str]:
    """Return the mounts out here whose line names one of these."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if any(mark in line for mark in marks)}


def every_process() -> set[int]:
    return {int(name) for name in entries("/proc") if name.isdecimal()}


def read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def entries(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - names only
    except OSError:
        return []


def link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115 - no path of a file
    except OSError:
        return ""
