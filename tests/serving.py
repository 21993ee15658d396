"""A real `cellwright serve` for tests, as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ENDED_S = 30


@dataclass(frozen=True)
class Service:
    """A running service."""

    url: str
    token: str
    state: Path
    pid: int
    printed: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to find it."""
        return {**os.environ, "CELLWRIGHT_STATE": str(self.state)}


@contextmanager
def running_service(state: Path, *arguments: str) -> Iterator[Service]:
    """Start `cellwright serve` on a free port; at the end it must stop by itself, with status 0, when told."""
    environment = {**os.environ, "CELLWRIGHT_STATE": str(state)}
    environment.pop("CELLWRIGHT_TOKEN", None)
    command = [sys.executable, "-m", "cellwright", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            printed: list[str] = []
            for line in process.stdout or ():
                printed.append(line.strip())
                if printed[-1] == "ready":
                    break
            assert printed[-1:] == ["ready"], f"serve ended before it was ready: {printed}"
            url = re.search(r"http://\S+", printed[0])
            assert url is not None
            yield Service(url.group(), (state / "token").read_text().strip(), state, process.pid, tuple(printed))
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(ENDED_S)
    assert status in {0, -signal.SIGTERM}, f"serve ended with {status}"


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes below this one, from the process table."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    found = {pid}
    while below := {child for child, parent in parents.items() if parent in found} - found:
        found |= below
    return found - {pid}


def alive(pids: set[int]) -> set[int]:
    """Return which of these processes are still there, zombies left out."""
    left = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            left.add(pid)
    return left
