"""How long a cell takes beside another session that uses up whatever there is: processes, memory, disk and inodes, all at once.

Flows in: nothing. Flows out: a row, its baseline the same session's cells before the other one began. Decided here: the attack,
which begins again where it is ended, so that it goes on for as long as is measured.
"""

from __future__ import annotations

import time
import uuid
from statistics import median
from typing import Final

import httpx2

from cellwright.bench.rows import Row
from cellwright.bench.service import answered, service
from cellwright.errors import EnvironmentMissing

CELLS: Final = 300
_FIRST: Final = 20
"""Cells before any is counted."""

_AGAIN: Final = """
import subprocess, sys
for folder in ("/tmp", "/dev/shm", "/home/agent"):
    subprocess.Popen([sys.executable, "-c", STARTER, folder])
"""
_STARTER: Final = """
import subprocess, sys
while True:
    try:
        subprocess.run([sys.executable, "-c", ATTACK, sys.argv[1]])
    except OSError:
        pass
"""
_FORKS: Final = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""
_MEMORY: Final = """
blocks = []
while True:
    try:
        blocks.append(bytearray(20_000_000))
    except MemoryError:
        blocks.clear()
"""
_DISK: Final = """
import os, sys
while True:
    try:
        with open(f"{sys.argv[1]}/filled", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1_000_000))
    except OSError:
        os.unlink(f"{sys.argv[1]}/filled")
"""
_INODES: Final = """
import os, sys
folder = f"{sys.argv[1]}/{os.getpid()}"
os.mkdir(folder)
for number in range(1_000_000):
    try:
        open(f"{folder}/{number}", "w").close()
    except OSError:
        pass
"""

ATTACK: Final = {
    kind: _AGAIN.replace("STARTER", repr(_STARTER.replace("ATTACK", repr(code))))
    for kind, code in {"disk": _DISK, "inodes": _INODES, "memory": _MEMORY, "processes": _FORKS}.items()
}
"""What each kind of attack has as a cell; it ends at once, and what it started does not."""


def measure() -> list[Row]:
    """Measure; takes about 20 s.

    Raises:
        EnvironmentMissing: A session did not come up, or did not answer beside the attack.
    """
    with service() as client:
        ours, attacker = uuid.uuid4().hex, uuid.uuid4().hex
        for session_id in (ours, attacker):
            response = client.post("/v1/sessions", json={"session_id": session_id, "browser": False})
            if response.status_code != 201:
                raise EnvironmentMissing(f"No session could be opened: {response.text[:500]} Run `cellwright doctor`.")
        _median_ms(client, ours, _FIRST)
        quiet = _median_ms(client, ours, CELLS)
        for code in ATTACK.values():
            answered(client, attacker, "python", code)
        beside = _median_ms(client, ours, CELLS)
        client.delete(f"/v1/sessions/{attacker}")
    what = "log(1) beside a session that uses up everything"
    return [Row(what=what, ours=round(beside, 2), baseline=round(quiet, 2), unit="ms", stock="the same, alone")]


def _median_ms(client: httpx2.Client, session_id: str, cells: int) -> float:
    took = []
    for _ in range(cells):
        started = time.perf_counter()
        _, said = answered(client, session_id, "python", "log(1)")
        took.append((time.perf_counter() - started) * 1e3)
        if said != "1":
            raise EnvironmentMissing(f"`log(1)` did not answer 1 but: {said[:500]} Run `cellwright doctor`.")
    return median(took)
