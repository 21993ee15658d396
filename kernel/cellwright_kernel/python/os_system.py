"""`os.system` -> a shell's command whose end is waited for so that an interrupt comes through.

Flows in: a command. Flows out: its wait status, as ever. Decided here: SIGINT is the caller's as well as the command's.
The C library's `system` has the process ignore SIGINT meanwhile, so a loop of commands let no interrupt in, and the
kernel was killed for it. All else is as there: SIGCHLD is blocked in the calling thread, so that a handler of the cell's
doesn't take the status away; a shell that can't be started counts as one that ended with 127.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

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
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            pid = os.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ, setsigmask=mask)
        except OSError:
            return _NOT_STARTED
        processes.start_of_cell(pid)
        return _status(pid)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _status(pid: int) -> int:
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # the cell ignores SIGCHLD, so nobody gets a status
        return -1
    except BaseException:
        with contextlib.suppress(OSError):  # a handler of the cell's has waited for it
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
