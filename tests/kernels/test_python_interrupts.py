"""Interrupts of the Python kernel: whatever the code is doing, its cell is answered, and nothing else is hit."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from tests.python_kernel import PythonKernel, python_kernel, without_underlines


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonKernel]:
    with python_kernel(tmp_path_factory.mktemp("k")) as kernel:
        kernel.run("import asyncio, os, sys, time")
        yield kernel


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "time.sleep(100)",
        "await asyncio.sleep(100)",
        "await asyncio.sleep(0)\nwhile True: pass",
        "asyncio.run(asyncio.sleep(100))",
        "import subprocess; subprocess.run(['sleep', '100'])",
        "while True: os.system('sleep 0.1')",
    ],
)
def test_an_interrupt_stops_it_and_keeps_variables(kernel, code):
    kernel.run("kept = 7")
    started = time.monotonic()
    told = kernel.interrupt_when_running(code)
    assert time.monotonic() - started < 5
    assert told.status == "error"
    assert told.reply["ename"] == "KeyboardInterrupt"
    assert told.outputs[-1][1].endswith("KeyboardInterrupt")
    assert kernel.run("kept").outputs == [("result", "7")]


_SPIN = "async def spin():\n    log('on')\n    while True: pass\n"
_HELD = "stopped because it held the kernel's event loop when a cell was to end"


@pytest.mark.parametrize(
    "code",
    [
        f"{_SPIN}t = asyncio.create_task(spin())\nawait asyncio.sleep(100)",
        f"{_SPIN}t = [asyncio.create_task(spin()) for _ in range(3)]\nlog('on'); time.sleep(100)",
        f"{_SPIN}async with asyncio.TaskGroup() as group: group.create_task(spin())",
        "async def spin():\n    while True: log('on')\nt = asyncio.create_task(spin())\nawait asyncio.sleep(100)",
        "def spin():\n    log('on')\n    while True: pass\nasyncio.get_running_loop().call_soon(spin)\nawait asyncio.sleep(100)",
        "asyncio.get_running_loop().call_soon(time.sleep, 100)\nlog('on'); time.sleep(100)",
        "async def endless():\n    try: yield\n    finally:\n        log('on')\n        while True: pass\n"
        "async for _ in endless(): break\nawait asyncio.sleep(100)",
        "class D:\n    def __del__(self):\n        log('on')\n        while True: pass\nD()\nawait asyncio.sleep(100)",
        "class D:\n    def __del__(self):\n        log('on')\n        while True: pass\nD()\nwhile True: pass",
    ],
    ids=["task", "tasks-not-begun", "group", "shows", "callback", "compiled", "async-generator", "del-await", "del"],
)
def test_one_interrupt_is_answered_whatever_holds_the_loop(kernel, code):
    kernel.run("kept = 7")
    started = time.monotonic()
    told = kernel.interrupt_at_on(code)
    assert time.monotonic() - started < 5
    assert (told.status, told.reply["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.run("kept").outputs == [("result", "7")]


def test_an_interrupt_just_before_a_cell_that_waited_goes_on_is_not_overlooked(kernel):
    told = kernel.run(
        "import signal\nasyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)\n"
        "await asyncio.sleep(0)\nwhile True: pass"
    )
    assert told.reply["ename"] == "KeyboardInterrupt"


def test_a_cell_that_catches_interrupts_goes_on_until_it_lets_one_through(kernel):
    kernel.run("kept = 7")
    kernel.send(
        "for _ in range(3):\n    try:\n        log('on')\n        while True: x = 1\n    except KeyboardInterrupt: pass"
    )
    for _ in range(3):
        while kernel.told_next()["msg_type"] != "display_data":  # its "on"
            pass
        kernel.interrupt()
    assert kernel.reply_next()["content"]["status"] == "ok"
    kernel.drain(0.05)
    assert kernel.run("kept").outputs == [("result", "7")]


def test_a_task_that_holds_the_loop_before_its_cells_answer_is_told_of(kernel):
    told = kernel.interrupt_at_on(f"{_SPIN}t = asyncio.create_task(spin(), name='T')")
    number = len(kernel.cells)
    assert told.status == "ok"
    assert [kind for kind, _ in told.outputs] == ["log", "stderr"]
    assert told.text("stderr").startswith("Background task T (<coroutine object spin at ")
    place = f'File "<cell {number}>", line 3, in spin\n    while True: pass\n'
    assert without_underlines(told.text("stderr")).endswith(f"{place}KeyboardInterrupt: {_HELD}\n")


def test_a_cell_that_cannot_begin_is_answered_and_nothing_of_it_runs(kernel, tmp_path):
    go = tmp_path / "go"
    kernel.run(
        f"async def spin():\n    while not os.path.exists({str(go)!r}): await asyncio.sleep(0.001)\n    log('on')\n"
        "    while True: pass\nt = asyncio.create_task(spin())"
    )
    number = len(kernel.cells)
    go.touch()
    while kernel.told_next()["msg_type"] != "display_data":  # its "on"
        pass
    kernel.send("ran = True")
    kernel.interrupt()
    reply = kernel.reply_next()["content"]
    assert (reply["ename"], reply["evalue"]) == (
        "KeyboardInterrupt",
        f"Nothing of this cell ran: code that cell {number} had left running held the kernel, and was interrupted",
    )
    told = kernel.run("'ran' in globals()")
    assert told.outputs == [("result", "False")]
    assert [(cell, kind) for cell, kind, _ in told.late] == [(number, "stderr"), (number + 1, "error")]
    assert told.late[0][2].endswith(f"KeyboardInterrupt: {_HELD}\n")


def test_background_work_that_gives_the_loop_back_outlives_an_interrupt(kernel):
    told = kernel.interrupt_at_on(
        "beats = 0\nasync def beat():\n    global beats\n    while True:\n        time.sleep(0.01)\n        beats += 1\n"
        "        if beats == 2: log('on')\n        await asyncio.sleep(0)\n"
        "t = asyncio.create_task(beat())\nawait asyncio.sleep(100)",
    )
    assert told.reply["ename"] == "KeyboardInterrupt"
    told = kernel.run("before = beats\nawait asyncio.sleep(0.05)\nlog(beats > before)\nt.cancel();")
    assert (told.outputs, told.late) == ([("log", "True")], [])


def test_an_error_whose_own_text_never_ends_is_answered(kernel):
    told = kernel.interrupt_at_on(
        "class Endless(Exception):\n    def __str__(self):\n        log('on')\n        while True: pass\nraise Endless",
    )
    assert told.reply["ename"] == "Endless"
    assert kernel.run("1 + 1").outputs == [("result", "2")]


def test_a_handler_of_the_cells_own_lasts_as_long_as_the_cell(kernel):
    told = kernel.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN);")
    assert told.outputs == [
        (
            "notice",
            "The cell has set a handler of its own for SIGINT. It was replaced at the cell's end, because without the "
            "kernel's own a cell can't be interrupted.",
        )
    ]
    assert kernel.interrupt_when_running("await asyncio.sleep(100)").reply["ename"] == "KeyboardInterrupt"


def test_an_interrupt_just_before_the_cell_starts_to_wait_is_not_overlooked(kernel):
    for _ in range(40):
        started = time.monotonic()
        assert kernel.interrupt_when_running("await asyncio.sleep(5)").reply["ename"] == "KeyboardInterrupt"
        assert time.monotonic() - started < 3


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupt_between_pythons_last_look_and_a_call_that_waits_ends_the_wait(kernel, times):
    """Both calls come from C: Python looks for signals before the first and after the second."""
    kernel.run("kept = 7")
    started = time.monotonic()
    told = kernel.run(
        "import ctypes, operator\nfrom collections import deque\nfrom functools import partial\n"
        f"strike = [partial(ctypes.CDLL(None)['raise'], 2)] * {times}\n"
        "deque(map(operator.call, [*strike, partial(time.sleep, 100)]), maxlen=0)"
    )
    assert time.monotonic() - started < 5
    assert (told.status, told.reply["ename"]) == ("error", "KeyboardInterrupt")
    assert kernel.run("time.sleep(0.2); kept").outputs == [("result", "7")]


def test_signals_that_a_cell_asks_the_event_loop_for_arrive_in_later_cells_too(kernel):
    told = kernel.run(
        "import signal\nloop = asyncio.get_running_loop()\ncame = asyncio.Event()\n"
        "loop.add_signal_handler(signal.SIGUSR1, came.set)\nos.kill(os.getpid(), signal.SIGUSR1)\n"
        "await asyncio.wait_for(came.wait(), 5)\ncame.clear()"
    )
    assert told.status == "ok"
    told = kernel.run(  # the next cell, after the kernel has taken its own place again
        "os.kill(os.getpid(), signal.SIGUSR1)\nawait asyncio.wait_for(came.wait(), 5)\n"
        "loop.remove_signal_handler(signal.SIGUSR1)"
    )
    assert told.outputs == [("result", "True")]
    assert kernel.interrupt_when_running("await asyncio.sleep(100)").reply["ename"] == "KeyboardInterrupt"


def test_an_interrupt_while_asyncio_puts_the_cells_next_turn_down_does_not_lose_it(kernel):
    told = kernel.run(
        "import signal\nloop = asyncio.get_running_loop()\ndef call_soon(*values, **options):\n    del loop.call_soon\n"
        "    signal.raise_signal(signal.SIGINT)\n    return loop.call_soon(*values, **options)\n"
        "loop.call_soon = call_soon\nawait asyncio.sleep(0)\nawait asyncio.sleep(100)"
    )
    assert told.reply["ename"] == "KeyboardInterrupt"


def test_interrupts_while_idle_hit_nothing(kernel):
    for _ in range(5):
        kernel.interrupt()
    assert kernel.run("time.sleep(0.05); 'whole'").outputs == [("result", "'whole'")]


def test_interrupts_at_any_moment_leave_a_kernel_that_works(kernel):
    for pause in range(30):
        kernel.send("for i in range(200): print(i)")
        time.sleep(pause / 10_000)
        kernel.interrupt()
    for _ in range(30):
        kernel.reply_next()
    kernel.drain(0.05)
    assert kernel.run("print('here'); kept").outputs == [("stdout", "here\n"), ("result", "7")]


def test_a_command_gives_its_wait_status(kernel):
    told = kernel.run("[os.system(command) for command in ('exit 3', 'kill -9 $$', ':')]")
    assert told.outputs == [("result", "[768, 9, 0]")]


def test_children_do_not_ignore_the_interrupt_signal(kernel):
    told = kernel.run("import subprocess; subprocess.run(['sh', '-c', 'kill -INT $$; echo no']).returncode")
    assert told.outputs == [("result", str(-signal.SIGINT))]


STRIKING = "kill -INT $PPID"


@pytest.mark.parametrize(
    "code",
    [
        f"while True: os.system('{STRIKING}')",
        f"os.system('{STRIKING}; exec sleep 100')\nwhile True: pass",
        f"os.system('{STRIKING}; trap : INT; while :; do :; done')",
        f"import threading\nthread = threading.Thread(target=os.system, args=('{STRIKING}',))\nthread.start()\nwhile True: pass",
    ],
    ids=["again-and-again", "long", "deaf", "thread"],
)
def test_an_interrupt_during_a_command_of_the_shell_comes_through(kernel, code):
    kernel.run("kept = 7")
    started = time.monotonic()
    told = kernel.run(code)
    assert time.monotonic() - started < 5
    assert (told.status, told.reply["ename"], told.text("stderr")) == ("error", "KeyboardInterrupt", "")
    assert kernel.run("kept").outputs == [("result", "7")]
    left = kernel.run(
        "[open(f'/proc/{pid}/cmdline').read() for pid in open(f'/proc/self/task/{os.getpid()}/children').read().split()]"
    )
    assert "kill -INT" not in left.outputs[0][1]


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("'exit 3'", "768"),
        ("b'exit 3'", "768"),
        ("'kill -9 $$'", "9"),
        ("'kill -INT $$'", "2"),
        ("'x' * 200_000", "32512"),
        ('\'test "$(grep SigBlk /proc/self/status | tr -d 0)" = "SigBlk:\t"\'', "0"),
        ("f'test $PPID = {os.getpid()}'", "0"),
    ],
)
def test_a_command_of_the_shell_has_its_wait_status(kernel, command, value):
    assert kernel.run(f"os.system({command})").outputs == [("result", value)]


def test_a_commands_status_is_not_taken_away_by_a_handler_of_dead_children(kernel):
    code = (
        "import signal\nreaped = []\ndef reap(*_):\n    reaped.append(1)\n    try: os.waitpid(-1, os.WNOHANG)\n"
        "    except ChildProcessError: pass\n"
        "old = signal.signal(signal.SIGCHLD, reap)\nstatus = os.system('exit 3')\nsignal.signal(signal.SIGCHLD, {})\n"
        "ignored = os.system('exit 3'), signal.signal(signal.SIGCHLD, old)\n"
        "status, ignored[0], len(reaped)"
    ).replace("{}", "signal.SIG_IGN")
    assert kernel.run(code).outputs == [("result", "(768, -1, 1)")]


def test_what_an_interrupt_in_a_finalizer_says_has_the_cells_own_frames(kernel):
    told = kernel.interrupt_at_on(
        "class Holds:\n    def __del__(self):\n        log('on')\n        while True: pass\nHolds()\nwhile True: pass"
    )
    lines = told.text("stderr").splitlines()
    assert lines[0].startswith("Exception ignored in: <function Holds.__del__ at 0x")
    frames = [line for line in lines if line.startswith("  File ")]
    number = len(kernel.cells)
    assert [frame.split(", in ")[1] for frame in frames] == ["__del__"]
    assert all(f'"<cell {number}>"' in frame for frame in frames)
    assert lines[-1] == "KeyboardInterrupt"


def test_a_finalizer_whose_object_and_error_cannot_be_shown_is_told_all_the_same(kernel):
    told = kernel.run(
        "class Bad(Exception):\n    def __str__(self): raise OSError\nclass Holds:\n    def __del__(self): raise Bad\n"
        "held = Holds(); del held"
    )
    assert told.status == "ok"
    assert "<its message could not be shown>" in told.text("stderr") or "Bad" in told.text("stderr")
