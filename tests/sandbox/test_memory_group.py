"""The memory group of a sandbox: everything in it is in the group, nothing in it can change that, and the group goes with it.

Where no group can be made, which is so for most ordinary users, the sandbox says so, and the limit of a process holds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serving import alive, descendants

from cellwright.sandbox.memory import MemoryGroup, memory_group
from cellwright.session import Session

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

GONE_S = 20.0
KILLED = """
import asyncio
from cellwright.session import Session

async def main():
    async with Session.open() as session:
        print(session.info.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def groups_of(pids: set[int]) -> set[str]:
    """Return the names of the memory groups that processes are in, as far as they are ours."""
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue
        paths = [line.split(":", 2)[2] for line in lines if line.startswith("0::") or ":memory:" in line]
        found.add("".join(Path(path).name for path in paths if Path(path).name.startswith("cellwright-")))
    return found


async def test_everything_is_in_one_group_that_goes_with_the_sandbox(tmp_path: Path) -> None:
    async with Session.open(runs=tmp_path) as session:
        await session.execute("import subprocess; held = subprocess.Popen(['sleep', '600'])")
        said = session.info.limits["memory_bytes"]
        names = groups_of(descendants(session.info.pid) | {session.info.pid})
    assert "3489660928 for each process of cells by rlimit" in said
    assert len(names) == 1
    name = names.pop()
    assert bool(name) == ("4294967296 for the whole sandbox by cgroup" in said)
    assert name == "" or groups_named(name) == []


async def test_inside_sees_how_much_it_had_and_can_change_nothing(tmp_path: Path) -> None:
    code = """
import os, pathlib, resource
def refused(act):
    try: act()
    except (OSError, ValueError) as error: return type(error).__name__
    return 'done'
log(refused(lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))))
for name in ('events', 'peak'):
    file = pathlib.Path('/run/memory') / name
    if file.exists():
        log(name, file.read_text().split()[-1].isdigit(), refused(lambda: file.write_text('0')), refused(lambda: file.chmod(0o666)))
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: log(*[fd for fd in pathlib.Path(f'/proc/{pid}/fd').iterdir() if 'cgroup' in os.readlink(fd)])
    except OSError: pass
"""
    async with Session.open(runs=tmp_path) as session:
        said = (await session.execute(code)).text.split("\n")
        is_held = "by cgroup" in session.info.limits["memory_bytes"]
    there = ["events True OSError OSError", "peak True OSError OSError"] if is_held else []
    assert [line for line in said if line] == ["ValueError", *there]


def test_what_a_killed_orchestrator_left_is_removed_by_the_next_sandbox(tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        sandbox = int(owner.stdout.readline())
        inside = descendants(sandbox) | {sandbox}
        (name,) = groups_of(inside)
        owner.send_signal(signal.SIGKILL)
    end = time.monotonic() + GONE_S
    while alive(inside) and time.monotonic() < end:
        time.sleep(0.05)
    assert alive(inside) == set()
    while name and groups_named(name) and time.monotonic() < end:  # one that has just ended still counts for a moment
        memory_group(1024**3).discard()
        time.sleep(0.05)
    assert name == "" or groups_named(name) == []


def groups_named(name: str) -> list[Path]:
    group = memory_group(1024**3)
    group.discard()
    return [*group.folder.parent.glob(name)] if isinstance(group, MemoryGroup) else []
