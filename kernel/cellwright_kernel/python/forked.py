"""Processes that a cell starts, and those that these fork in turn.

Flows in: a start. Flows out: how much of the processor the child gets, and how early it goes where memory runs out;
and, once the cell was ended, no more dead children than a program may have forgotten. Decided here: children of the
kernel are like the kernel, but go first where memory runs out; what they fork themselves gives way to everybody else. A
pool of workers never comes there, a fork bomb is there after three forks; and the kernel host, which is to end it,
would not get its turn: within half a second 650 that fork without end left it 0.2 % of two cores where the Linux kernel
does not share by session (in a control group of its own, as containers are).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from functools import wraps
from pathlib import Path
from typing import Any, Final

from cellwright_kernel import processes

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


def reap_crowd() -> None:
    """Reap the children that are dead, if there are too many of any kind."""
    try:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    except OSError:
        return
    for pid in children if len(children) > _CROWD else ():
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(pid), os.WNOHANG)
