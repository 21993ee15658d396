"""The system calls that a sandbox may not make.

Flows in: nothing. Flows out: a filter as BPF bytes, for bubblewrap's `--seccomp`.
Decided here: what is refused, and how. The `browser` profile leaves Chromium's own sandbox working (renderers in user,
pid and net namespaces of their own) and closes what a nested user namespace would open: mounts, foreign socket
families, vsock among them, io_uring, keyrings, bpf.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from functools import cache
from typing import Final

REFUSED: Final = (
    "mount umount2 pivot_root fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr "
    "bpf keyctl add_key request_key perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd "
    "kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms "
    "process_vm_writev setns open_by_handle_at name_to_handle_at quotactl quotactl_fd swapon swapoff reboot "
    "settimeofday clock_settime clock_adjtime adjtimex stime syslog vmsplice acct vhangup iopl ioperm "
    "lookup_dcookie nfsservctl uselib ustat"
).split()
"""Refused with EPERM; names that this architecture does not have are passed over."""

FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Socket families that are left; every other one does not exist (EAFNOSUPPORT)."""

_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_INT: Final = 0xFFFFFFFF
"""The kernel reads these arguments as int; the high half must not fool the filter."""


@cache
def browser_filter() -> bytes:
    """Return the `browser` profile as BPF bytes (about 1 KiB; built in 1 ms)."""
    import pyseccomp  # noqa: PLC0415 - loads libseccomp2, which doctor reports when it is missing

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in REFUSED:
        try:
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (OSError, ValueError, RuntimeError):
            continue  # not a call of this architecture
    # glibc falls back to clone, whose flags a filter can read
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    _refuse_families(pyseccomp, rules)
    for request in (_TIOCSTI, _TIOCLINUX):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _INT, request))
    return _exported(rules)


def _refuse_families(pyseccomp: object, rules: object) -> None:
    masked, arg = pyseccomp.MASKED_EQ, pyseccomp.Arg  # type: ignore[attr-defined]
    refuse = pyseccomp.ERRNO(errno.EAFNOSUPPORT)  # type: ignore[attr-defined]
    for family in set(range(64)) - set(FAMILIES):
        rules.add_rule(refuse, "socket", arg(0, masked, _INT, family))  # type: ignore[attr-defined]
    for bit in range(6, 32):  # every family from 64 up has one of these bits
        rules.add_rule(refuse, "socket", arg(0, masked, 1 << bit, 1 << bit))  # type: ignore[attr-defined]


def _exported(rules: object) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)  # type: ignore[attr-defined]
        file.seek(0)
        return os.read(file.fileno(), 1024**2)
