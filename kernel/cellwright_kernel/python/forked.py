"""Processes that a cell starts, and those that these fork in turn.

Flows in: a start. Flows out: how much of the processor the child gets, and how early it goes where memory runs out;
how a forked child ends that came to the end of its cell; and, once the cell was ended, no more dead children than a
program may have forgotten. Decided here: such a child ends as a program does, with its traceback and its exit status, and
is never a second kernel. Children of the kernel are like the kernel, but go first where memory runs out; what they fork themselves gives way to everybody else. A
pool of workers never comes there, a fork bomb is there after three forks; and the kernel host, which is to end it,
would not get its turn: within half a second 650 that fork without end left it 0.2 % of two cores where the Linux kernel
does not share by session (in a control group of its own, as containers are).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn

from cellwright_kernel import processes
from cellwright_kernel.python import errors
from cellwright_kernel.python.forked_text import ForkedText

_NICE: Final = 19
_CROWD: Final = 32
"""Dead children, above which it is no program's own affair any more whether it waits for them: they count under the
limit of processes."""


def have_grandchildren_give_way() -> None:
    """In the kernel: see to it from now on."""
    kernel = os.getpid()

    def in_child() -> None:
        processes.start_of_cell(os.getpid())
        if os.getppid() != kernel:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, _NICE)

    os.register_at_fork(after_in_child=in_child)


def have_children_go_first() -> None:
    """In the kernel: see to it at once; what `subprocess` does not start, the kernel host finds in half a second."""
    native = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    @wraps(native)
    def execute_child(popen: subprocess.Popen[Any], *args: Any, **options: Any) -> None:
        native(popen, *args, **options)
        processes.start_of_cell(popen.pid)

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


def leave(error: BaseException | None, text: ForkedText) -> NoReturn:
    """In a forked child, whose cell has come to its end in it: end as the interpreter would.

    Of an interrupt it says nothing, and dies of it. Its parent is interrupted as well and tells; what the child says
    comes when the cell was answered.

    Args:
        error: What ended the cell, if anything did.
        text: Where the child's text goes; `os._exit` lets go of it.
    """
    try:
        if isinstance(error, KeyboardInterrupt):
            for name in ("stdout", "stderr"):
                text.flush(name)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.kill(os.getpid(), signal.SIGINT)
        status = 0 if error is None else _told_status(error, text)
    except BaseException:  # nobody reads what it writes, or an interrupt came
        status = 1
    os._exit(status)


def _told_status(error: BaseException, text: ForkedText) -> int:
    if not isinstance(error, SystemExit):
        text.write("stderr", "\n".join((*_lines(error), "")))
        return 1
    if isinstance(error.code, int):
        return error.code & 0xFF
    if error.code is not None:
        text.write("stderr", f"{error.code}\n")
    return int(error.code is not None)


def _lines(error: BaseException) -> tuple[str, ...]:
    try:
        return errors.describe(error).lines
    except Exception:  # the model's own text of it
        return (f"{type(error).__name__}: <its message could not be shown>",)


def reap_crowd() -> None:
    """Reap the children that are dead, if there are too many of any kind."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return
    for pid in children if len(children) > _CROWD else ():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(pid), os.WNOHANG)
