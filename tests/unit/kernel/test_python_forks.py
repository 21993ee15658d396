"""What a cell forks: interrupts, the processor's share, and the dead."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.python_kernel import PythonKernel, python_kernel

FORKING = """\
def fork():
    pid = os.fork()
    if pid == 0: os._exit(0)
    return pid
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        kernel.run(f"import os\n{FORKING}")
        yield kernel


def test_an_interrupt_among_the_hooks_around_a_fork_comes_out_in_the_cell(kernel):
    told = kernel.interrupt_when_running(
        "def never(): raise OSError\nos.register_at_fork(before=lambda: [None for _ in range(2000)])\n"
        "while True: os.waitpid(fork(), 0)"
    )
    assert (told.reply["ename"], told.text("stderr")) == ("KeyboardInterrupt", "")
    assert kernel.run("1 + 1").outputs == [("result", "2")]


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
    # from 3.12 on Python warns of forks where there are threads
    assert [shown for shown in kernel.run(code).outputs if shown[0] != "stderr"] == [("result", "[0, 19, 19]")]


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
