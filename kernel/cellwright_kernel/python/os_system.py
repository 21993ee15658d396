"""`os.system` -> a shell's command whose end is waited for so that an interrupt comes through.

Flows in: a command. Flows out: its wait status, as ever. Decided here: SIGINT is the caller's as well as the command's.
The C library's `system` has the process ignore SIGINT meanwhile, so a loop of commands let no interrupt in, and the
kernel was killed for it. All else is as there: a handler of the cell's for SIGCHLD comes after it, so that it doesn't take
the status away; a shell that can't be started counts as one that ended with 127.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from itertools import starmap

from cellwright_kernel import processes

_NOT_STARTED = 127 << 8
_END_S = 0.25
"""What an interrupted command gets to end by itself; as much as `subprocess.run` gives."""


def let_interrupts_into_system() -> None:
    """In the kernel: see to it from now on."""
    os.system = system


def system(command: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> int:
    """Execute the command (a string) in a subshell, and return its wait status."""
    sys.audit("os.system", os.fsencode(command))
    with _dead_children_told_later():
        return _status(partial(os.posix_spawn, "/bin/sh", ["sh", "-c", command], os.environ))


@contextlib.contextmanager
def _dead_children_told_later() -> Iterator[None]:
    """Put off a handler of the cell's for SIGCHLD; to block the signal, as the C library does, would let another thread take it."""
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []
    signal.signal(signal.SIGCHLD, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, handler)
        if came:
            signal.raise_signal(signal.SIGCHLD)


def _status(start: partial[int]) -> int:
    started: list[int] = []
    try:
        # Python looks for signals once this line is done: a command that has been started is known by then
        started.extend(starmap(start, [()]))
        processes.start_of_cell(started[0])
        return os.waitpid(started[0], 0)[1]
    except ChildProcessError:  # the cell ignores SIGCHLD, so nobody gets a status
        return -1
    except OSError:
        return _NOT_STARTED
    except BaseException:
        with contextlib.suppress(OSError):  # a handler of the cell's has waited for it
            for pid in started:
                _end(pid)
        raise


def _end(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        if not select.select([pidfd], [], [], _END_S)[0]:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    finally:
        os.close(pidfd)
