"""What a cell forks: interrupts, the processor's share, and the dead."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from itertools import product
from threading import Thread

import pytest
from tests.python_kernel import PythonKernel, python_kernel, without_underlines

FORKING = """\
import os, signal, subprocess, time, warnings
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


def failed(statement: str, error: str) -> str:
    return f'Traceback (most recent call last):\n  File "<cell N>", line 3, in <module>\n    {statement}\n{error}\n'


@pytest.mark.parametrize(
    ("statement", "status", "said"),
    [
        ("pass", 0, ""),
        ("1 / 0", 256, failed("1 / 0", "ZeroDivisionError: division by zero")),
        ("raise ExceptionGroup('g', [])", 256, None),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(3)", 3 << 8, ""),
        ("raise SystemExit(-1)", 255 << 8, ""),
        ("raise SystemExit('why')", 256, "why\n"),
        ("raise KeyboardInterrupt", signal.SIGINT, ""),
        ("signal.raise_signal(signal.SIGINT)", signal.SIGINT, ""),
        ("loop.stop(); signal.raise_signal(signal.SIGINT)", signal.SIGINT, ""),
        ("print('unfinished', end='', file=sys.stderr)", 0, "unfinished"),
    ],
)
@pytest.mark.parametrize("depth", [1, 2])
def test_a_forked_child_that_comes_to_the_end_of_its_cell_ends_as_a_program_does(
    kernel, statement, status, said, depth
):
    forked = "pid = os.fork()\n" if depth == 1 else "pid = os.fork() or os.fork()\n"
    told = kernel.run(
        f"import asyncio, sys; kernel, loop = os.getpid(), asyncio.get_running_loop(); {forked}if pid == 0:\n    {statement}\n"
        "if pid and os.getpid() != kernel:\n    os._exit(os.waitpid(pid, 0)[1] != {status})\n"
        "if pid: log(os.waitpid(pid, 0)[1])".replace("{status}", str(int(status)))
    )
    number = len(kernel.cells)
    heard = without_underlines(told.text("stderr")).replace(f"<cell {number}>", "<cell N>")
    assert said is None or heard == said
    assert told.text("log") == str(int(status if depth == 1 else 0))
    assert told.status == "ok"


def test_a_child_with_a_terminal_of_its_own_tells_it_there(kernel):
    told = kernel.run(
        "pid, terminal = os.forkpty()\nif pid == 0: 1 / 0\nsaid = b''\nwhile not said.endswith(b'zero\\r\\n'):\n"
        "    said += os.read(terminal, 1000)\nstatus = os.waitpid(pid, 0)[1]; os.close(terminal); status"
    )
    assert told.outputs == [("result", "256")]


def test_an_interrupt_of_a_cell_is_told_once_and_not_by_what_it_forked(kernel):
    told = kernel.interrupt_at_on(
        # the child is waited for: Python drops a signal that comes before a child has its own hands
        "ours, its = os.pipe()\npid = os.fork()\nif pid == 0:\n    os.write(its, b'1')\n    while True: time.sleep(100)\n"
        "try:\n    os.read(ours, 1)\n    log('on')\n    os.waitpid(pid, 0)\nexcept KeyboardInterrupt: os.kill(pid, signal.SIGINT)\nos.waitpid(pid, 0)[1]"
    )
    assert told.outputs == [("log", "on"), ("result", str(int(signal.SIGINT)))]


@pytest.mark.parametrize("when", ["before", "after_in_parent"])
@pytest.mark.parametrize("hang", ["time.sleep(60)", "exec('while True: pass')"])
def test_a_hook_of_a_fork_that_hangs_costs_a_second_interrupt_and_no_variables(kernel, when, hang):
    kernel.run(f"kept, is_hung = 7, True\ndef hook():\n    global is_hung\n    if is_hung:\n        {hang}\n")
    kernel.run(f"os.register_at_fork({when}=hook)")
    ladder = Thread(target=climb, args=(kernel,))
    told = kernel.run("log('on')\nfork()\nlog('went on')", when=lambda told: bool(told.outputs), do=ladder.start)
    ladder.join()
    assert (told.reply["ename"], told.text("log")) == ("KeyboardInterrupt", "on")
    assert "interrupts.py" not in told.text("stderr")
    assert kernel.run("is_hung = False; kept").outputs == [("result", "7")]


def climb(kernel: PythonKernel) -> None:
    """As the ladder of a deadline: interrupts at these times."""
    kernel.interrupt()
    time.sleep(0.4)
    kernel.interrupt()


def test_a_worker_of_a_pool_shows_no_frame_of_the_kernels(kernel):
    told = kernel.run(
        "import multiprocessing\nchild = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "child.start()\nstate = lambda: open(f'/proc/{child.pid}/stat').read().rsplit(') ', 1)[1][0]\n"
        "while 'hrtimer' not in open(f'/proc/{child.pid}/wchan').read() and state() != 'S': pass\n"
        "os.kill(child.pid, signal.SIGINT); child.join(); child.exitcode"
    )
    assert told.outputs[-1] == ("result", "1")
    assert told.text("stderr").endswith("KeyboardInterrupt\n")
    assert "cellwright" not in told.text("stderr")
