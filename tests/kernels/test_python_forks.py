"""What a cell forks: interrupts, the processor's share, and the dead."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import product

import pytest
from tests.python_kernel import PythonKernel, python_kernel

FORKING = """\
import os, signal, subprocess, warnings
def fork():
    pid = os.fork()
    if pid == 0: os._exit(0)
    return pid
def fork_with_terminal():
    if os.forkpty()[0] == 0: os._exit(0)
def fork_to_execute():
    subprocess.run(['true'], preexec_fn=int)
def strike(now):
    global at
    if at == now:
        at = ''
        signal.raise_signal(signal.SIGINT)
at = ''
"""
HOOKS = """\
os.register_at_fork(
    before=lambda: strike('before'),
    after_in_parent=lambda: strike('after'),
    after_in_child=lambda: strike('in the child'),
)
def showwarning(*told):
    strike('warning')
"""
WARNED_OF = ("fork", "fork_with_terminal") if sys.version_info >= (3, 12) else ()
"""What Python warns of beside threads."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        assert kernel.run(FORKING).status == "ok"
        yield kernel


@pytest.fixture(scope="module")
def hooked(kernel: PythonKernel) -> PythonKernel:
    assert kernel.run(HOOKS).status == "ok"
    return kernel


def test_an_interrupt_among_the_hooks_around_a_fork_comes_out_in_the_cell(kernel):
    told = kernel.interrupt_when_running(
        "def never(): raise OSError\nos.register_at_fork(before=lambda: [None for _ in range(2000)])\n"
        "while True: os.waitpid(fork(), 0)"
    )
    assert (told.reply["ename"], told.text("stderr")) == ("KeyboardInterrupt", "")
    assert kernel.run("1 + 1").outputs == [("result", "2")]


@pytest.mark.parametrize(
    ("fork", "at"),
    [
        *product(["fork", "fork_with_terminal", "fork_to_execute"], ["before", "after"]),
        *product(WARNED_OF, ["warning"]),
    ],
)
def test_an_interrupt_at_any_place_within_a_fork_comes_out_of_it(hooked, fork, at):
    told = hooked.run(
        f"at = '{at}'\nwith warnings.catch_warnings():\n    warnings.simplefilter('always')\n"
        f"    warnings.showwarning = showwarning\n    {fork}()\n    log('went on')"
    )
    assert [kind for kind, _ in told.outputs] == ["error"]
    assert told.reply["ename"] == "KeyboardInterrupt"
    assert hooked.run("at").outputs == [("result", "''")]


@pytest.mark.parametrize(
    ("at", "said"),
    [("before", "the child went on, the parent was interrupted"), ("in the child", "the child was interrupted")],
)
def test_an_interrupt_within_a_fork_is_of_the_process_that_got_it(hooked, at, said):
    told = hooked.run(
        f"at, (r, w), kernel, said = '{at}', os.pipe(), os.getpid(), ''\n"
        "try:\n"
        "    if os.fork() == 0: os.write(w, b'the child went on, '); os._exit(0)\n"
        "except KeyboardInterrupt:\n"
        "    if os.getpid() != kernel: os.write(w, b'the child was interrupted'); os._exit(0)\n"
        "    said = 'the parent was interrupted'\n"
        "at = ''\n"
        "os.read(r, 100).decode() + said"
    )
    assert told.outputs == [("result", repr(said))]


def test_forks_of_forks_give_way_and_a_cells_own_do_not(kernel):
    code = (
        "def niceness(depth):\n"
        "    r, w = os.pipe()\n"
        "    if (pid := os.fork()) == 0:\n"
        "        found = [os.nice(0), *(niceness(depth - 1) if depth > 1 else [])]\n"
        "        os.write(w, repr(found).encode()); os._exit(0)\n"
        "    os.waitpid(pid, 0)\n"
        "    return eval(os.read(r, 100))\n"
        "niceness(3)"
    )
    assert kernel.run(code).outputs == [("result", "[0, 19, 19]")]


def test_a_crowd_of_dead_children_is_reaped_when_the_kernel_is_asked_and_a_few_are_left_to_the_code(kernel):
    def left() -> int:
        kernel.client.kernel_info(reply=True, timeout=5)
        return int(kernel.run("len(open(f'/proc/self/task/{os.getpid()}/children').read().split())").outputs[0][1])

    before = left()
    kernel.run("for _ in range(5): fork()")
    assert left() == before + 5
    kernel.run("for _ in range(60): fork()\nfor _ in range(60): os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)")
    end = time.monotonic() + 5
    while left() > 32 and time.monotonic() < end:  # not all may have died when it was first asked
        pass
    assert left() <= 32
