"""Whether a program has done what was sent to it is seen by all of its threads."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.desk import wait_for

from cellwright_kernel.python.idle import Idleness

Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program of Python code; returns once it has written a line."""
    started: list[subprocess.Popen[str]] = []

    def start_one(code: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        )
        assert started[-1].stdout
        started[-1].stdout.readline()
        return started[-1]

    yield start_one
    for program in started:
        program.kill()
        program.communicate()


def test_one_that_waits_for_events_is_idle_at_the_third_look(start: Start) -> None:
    program = start("import select; print(flush=True); select.select([0], [], [])")

    def looks() -> list[bool]:
        idleness = Idleness(program.pid)
        return [idleness.look() for _ in range(4)]

    assert wait_for(lambda: looks() == [False, False, True, True])


# longer than any look at it, and it ends with the program
CHILD = "os.posix_spawnp('setpriv', 'setpriv --pdeathsig KILL sleep 60'.split(), os.environ)"


@pytest.mark.parametrize("wait", ["time.sleep(60)", "os.read(0, 1)", f"os.waitpid({CHILD}, 0)"])
def test_one_that_waits_for_something_else_is_not(start: Start, wait: str) -> None:
    program = start(f"import os, time; print(flush=True); {wait}")
    idleness = Idleness(program.pid)
    assert not wait_for(idleness.look, 0.3)


def test_one_that_pauses_again_and_again_has_looked_at_its_keys(start: Start) -> None:
    program = start("import time; print(flush=True)\nwhile True: time.sleep(0.016)")

    def looks(idleness: Idleness) -> bool:
        return any(idleness.look() for _ in range(3))

    assert wait_for(lambda: not looks(Idleness(program.pid)))  # three in a row, unless the machine pauses between them
    idleness = Idleness(program.pid)
    assert wait_for(lambda: looks(idleness))


def test_one_that_has_ended_is_idle(start: Start) -> None:
    program = start("print(flush=True)")
    program.wait()
    assert Idleness(program.pid).look()


COMPUTES = """import os, select, threading
def compute():
    print(threading.get_native_id(), flush=True)
    while True: pass
threading.Thread(target=compute, daemon=True).start()
select.select([0], [], [])"""


def test_a_thread_that_computes_on_its_own_account_is_left_out(start: Start) -> None:
    idleness = Idleness(start(COMPUTES).pid)
    assert not wait_for(idleness.look, 0.05)
    assert wait_for(idleness.look)


WAKES = """import select, threading
woken = threading.Event()
def wait_for_events():
    print(threading.get_native_id(), flush=True)
    select.select([0], [], [])
    woken.set()
    threading.Event().wait()
threading.Thread(target=wait_for_events, daemon=True).start()
woken.wait()
print("woken", flush=True)
select.select([], [], [1])"""
HOG = """import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(flush=True)
while True: pass"""


def test_one_whose_waiting_thread_gets_no_processor_is_not_idle_before_it_has_woken_the_other(start: Start) -> None:
    program = start(WAKES)
    (waiting,) = {int(entry.name) for entry in Path(f"/proc/{program.pid}/task").iterdir()} - {program.pid}
    os.sched_setaffinity(waiting, {min(os.sched_getaffinity(0))})
    os.sched_setscheduler(waiting, os.SCHED_IDLE, os.sched_param(0))
    hog = start(HOG)
    assert program.stdin
    program.stdin.write("event\n")
    idleness = Idleness(program.pid)
    if not wait_for(idleness.look, 0.3):  # it has its turn at last; beside much else that runs it would take minutes
        hog.kill()
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(waiting, os.SCHED_OTHER, os.sched_param(0))
        assert wait_for(idleness.look)
    assert select.select([program.stdout], [], [], 0)[0] == [program.stdout]
