"""Which processes belong to a kernel. The processes are real; the kernel is one that only sleeps."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.desk import wait_for
from tests.waiting import GUARD_S

from cellwright_kernel import processes

MARK = "python-test"
PYTHON = Path(sys.executable).resolve()


@pytest.fixture
def kernel() -> Iterator[subprocess.Popen[str]]:
    """A process that starts what is written to it, a command a line, and says the process id."""
    code = (
        "import subprocess, sys\n"
        "for line in sys.stdin:\n"
        "    name, *command = eval(line)\n"
        "    print(subprocess.Popen(command, executable=name, stdout=subprocess.DEVNULL).pid, flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, processes.MARK: MARK},
    ) as kernel:
        yield kernel
        asyncio.run(processes.kill_all(kernel.pid, MARK))
        kernel.kill()


def start(kernel: subprocess.Popen[str], executable: str, *command: str) -> int:
    assert kernel.stdin is not None
    assert kernel.stdout is not None
    kernel.stdin.write(repr((executable, *command)) + "\n")
    kernel.stdin.flush()
    pid = int(kernel.stdout.readline())
    # the kernel has closed what tells of its start a moment before it shows the arguments
    assert wait_for(Path(f"/proc/{pid}/cmdline").read_bytes)
    return pid


def test_descendants_are_a_kernels_own_and_itself_is_not(kernel):
    pid = start(kernel, "/bin/sleep", "sleep", "60")
    found = processes.of_kernel(kernel.pid, MARK)
    assert [process.pid for process in found] == [pid]
    assert found[0].parent == kernel.pid


def test_what_began_before_a_moment_is_told_apart(kernel):
    start(kernel, "/bin/sleep", "sleep", "60")
    began = processes.now() + 0.1
    while processes.now() < began:
        pass
    later = start(kernel, "/bin/sleep", "sleep", "61")
    assert [process.pid for process in processes.of_kernel(kernel.pid, MARK, since=began)] == [later]


async def test_playwrights_driver_is_part_of_the_kernel_and_is_never_found(kernel, tmp_path):
    node = tmp_path / "node"  # a process is named after the file that was executed
    node.symlink_to(PYTHON)
    driver = start(kernel, str(node), "/x/playwright/driver/node", "-c", "import time; time.sleep(60)", "run-driver")
    assert processes.of_kernel(kernel.pid, MARK) == []
    assert await processes.kill_all(kernel.pid, MARK) == {}
    os.kill(driver, signal.SIGKILL)


async def test_killing_leaves_nothing_and_tells_the_commands(kernel):
    pid = start(kernel, "/bin/sleep", "sleep", "60")
    assert await processes.kill_all(kernel.pid, MARK) == {pid: "sleep 60"}
    assert not processes.is_alive(pid)
    assert processes.of_kernel(kernel.pid, MARK) == []


async def test_a_process_is_ending_from_the_moment_it_is_killed_though_nobody_has_reaped_it(kernel):
    assert not processes.is_ending(kernel.pid)
    os.kill(kernel.pid, signal.SIGSTOP)
    assert not processes.is_ending(kernel.pid)
    os.kill(kernel.pid, signal.SIGKILL)
    assert processes.is_ending(kernel.pid)
    kernel.wait()
    assert processes.is_ending(kernel.pid)


async def test_a_process_that_cannot_be_looked_at_is_not_said_to_be_ending(kernel):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        assert not processes.is_ending(kernel.pid)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_what_makes_new_ones_without_end_is_ended_whole(kernel):
    code = "import os, time\nfor _ in range(6): os.fork()\nwhile True:\n  if os.fork() == 0: time.sleep(0.05); os._exit(0)\n  os.wait()"
    start(kernel, sys.executable, sys.executable, "-c", code)
    async with asyncio.timeout(GUARD_S):
        while len(processes.of_kernel(kernel.pid, MARK)) < 60:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.01)
    killed = await processes.kill_all(kernel.pid, MARK)
    assert len(killed) > 60
    assert Path(sys.executable).name in killed.values(), "many are told of by their names"
    await processes.gone(killed)
    assert processes.of_kernel(kernel.pid, MARK) == []


REAPING = """
import subprocess, time
from cellwright_kernel import processes
processes.become_subreaper()
def dead():
    return [process.pid for process in processes._table() if process.parent == processes.os.getpid() and process.state == "Z"]
mother = subprocess.Popen(["sh", "-c", "sleep 0.1 & :"], start_new_session=True)
mother.wait()
ours = subprocess.Popen(["true"], start_new_session=True)
end = time.monotonic() + 10
while len(dead()) < 2 and time.monotonic() < end: time.sleep(0.01)
assert len(dead()) == 2, dead()
seen = processes.reap_orphans({})
assert dead() == [ours.pid], dead()
for _ in range(processes.SURELY): seen = processes.reap_orphans(seen)
assert dead() == [], dead()
ours.wait()
"""


def test_an_orphan_is_reaped_at_once_and_a_child_only_when_nobody_waits_for_it() -> None:
    subprocess.run([sys.executable, "-c", REAPING], check=True, timeout=30)
