"""The control groups of a sandbox: everything in it is in them, each part in its own, nothing in it can change that, and they go with it.

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

from cellwright.sandbox.base import Limits, Spec
from cellwright.sandbox.control_groups import Tree, control_groups
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


def groups_of(pids: set[int]) -> dict[int, set[tuple[str, str]]]:
    """Return of each process the groups that it is in, as far as they are ours: the sandbox's, and the part's."""
    found = {}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            continue
        paths = [Path(line.split(":", 2)[2]) for line in lines]
        found[pid] = {(path.parent.name, path.name) for path in paths if path.parent.name.startswith("cellwright-")}
    return found


def names_of(pids: set[int]) -> set[str]:
    return {name for groups in groups_of(pids).values() for name, _ in groups}


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


async def test_everything_is_in_groups_that_go_with_the_sandbox(tmp_path: Path) -> None:
    async with Session.open(runs=tmp_path) as session:
        await session.execute("import subprocess; held = subprocess.Popen(['sleep', '600'])")
        await session.execute("require('child_process').spawn('sleep', ['601']); 1", language="javascript")
        limits = session.info.limits
        groups = groups_of(descendants(session.info.pid))
        parts = {command_of(pid): {part for _, part in found} for pid, found in groups.items()}
    is_held = "by cgroup" in limits["memory_bytes"]
    assert "3489660928 for each process of cells by rlimit" in limits["memory_bytes"]
    assert is_held == (
        "4294967296 for the whole sandbox, of it 3489660928 for its browser, by cgroup" in limits["memory_bytes"]
    )
    if not is_held:
        assert set(map(frozenset, parts.values())) == {frozenset()}
        return
    expected = {
        "sleep 600": "cells",
        "sleep 601": "cells",
        "-m cellwright_kernel.python": "cells",
        "-m cellwright_kernel.javascript": "cells",
        "javascript/runner.cjs": "cells",
        "-m cellwright_kernel --settings": "host",
        "Xvnc": "host",
        "--type=renderer": "browser",
        "--remote-debugging-port": "browser",
    }
    for words, part in expected.items():
        assert {frozenset(found) for command, found in parts.items() if words in command} == {frozenset({part})}, words
    assert all(len(found) == 1 for found in parts.values()), parts
    for name in {name for found in groups.values() for name, _ in found}:
        assert groups_named(name) == []


async def test_no_more_processors_are_used_than_were_given(tmp_path: Path) -> None:
    """Two that would have taken two processors of the clock's time each get a quarter, as far as groups can be made here."""
    code = r"""
import subprocess, sys, time
burn = "import time; end = time.monotonic() + 2\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
held = [subprocess.Popen([sys.executable, "-c", burn], stdout=-1, text=True) for _ in range(2)]
print(sum(float(process.communicate()[0]) for process in held))
"""
    async with Session.open(Spec(browser=False, limits=Limits(cpus=0.5)), runs=tmp_path) as session:
        used = float((await session.execute(code)).text)
        is_held = session.info.limits["cpus"].startswith("0.5 by cgroup")
    assert not is_held or used < 1.5, used


async def test_inside_sees_how_much_it_had_and_can_change_nothing(tmp_path: Path) -> None:
    code = """
import os, pathlib, resource
def refused(act):
    try: act()
    except (OSError, ValueError) as error: return type(error).__name__
    return 'done'
log(refused(lambda: resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))))
for group in ('sandbox', 'browser'):
    for file in sorted(pathlib.Path('/run/memory', group).glob('*')):
        log(group, file.name.partition('-')[0], file.read_text().split()[-1].isdigit(), refused(lambda: file.write_text('0')), refused(lambda: file.chmod(0o666)))
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: log(*[fd for fd in pathlib.Path(f'/proc/{pid}/fd').iterdir() if 'cgroup' in os.readlink(fd)])
    except OSError: pass
"""
    async with Session.open(runs=tmp_path) as session:
        said = (await session.execute(code)).text.split("\n")
        is_held = "by cgroup" in session.info.limits["memory_bytes"]
    there = {f"{group} {kind} True OSError OSError" for group in ("sandbox", "browser") for kind in ("events", "peak")}
    assert {line for line in said if line} == {"ValueError", *(there if is_held else ())}


def test_what_a_killed_orchestrator_left_is_removed_by_the_next_sandbox(tmp_path: Path) -> None:
    environment = {**os.environ, "CELLWRIGHT_STATE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        sandbox = int(owner.stdout.readline())
        inside = descendants(sandbox) | {sandbox}
        names = names_of(inside)
        owner.send_signal(signal.SIGKILL)
    end = time.monotonic() + GONE_S
    while alive(inside) and time.monotonic() < end:
        time.sleep(0.05)
    assert alive(inside) == set()
    while any(map(groups_named, names)) and time.monotonic() < end:  # one that has just ended still counts for a moment
        control_groups(Limits()).discard()
        time.sleep(0.05)
    assert [groups_named(name) for name in names] == [[] for _ in names]


def groups_named(name: str) -> list[Path]:
    groups = control_groups(Limits())
    groups.discard()
    parents = {tree.folder.parent for tree in (groups.memory, groups.cpu) if isinstance(tree, Tree)}
    return [found for parent in parents for found in parent.glob(name)]
