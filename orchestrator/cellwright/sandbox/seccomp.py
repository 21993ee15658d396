"""The system calls that a sandbox may not make.

Flows in: nothing. Flows out: a filter as BPF bytes, for bubblewrap's `--seccomp`.
Decided here: what is refused, and how. The `browser` profile leaves Chromium's own sandbox working (renderers in user,
pid and net namespaces of their own) and closes what a nested user namespace would open: mounts and all other namespaces,
foreign socket families (vsock among them), packet filters, routing of IPsec and whatever else netlink leads to, raw
sockets. It closes what one process can do to another of the same uid (ptrace and its kin), io_uring, keyrings, bpf. What
nothing here uses is refused even where no harm of it is known: each of these calls is code of the Linux kernel's that
could be wrong.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import tempfile
from functools import cache
from typing import Any, Final

REFUSED: Final = (
    # mounts, and handles that lead around them
    "mount umount2 pivot_root fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr setns "
    "open_by_handle_at name_to_handle_at quotactl quotactl_fd swapon swapoff "
    # of one process to another; debuggers are not among what works inside
    "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp "
    # what has had the most faults, and what nothing here uses
    "bpf keyctl add_key request_key perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd "
    "fanotify_init fanotify_mark memfd_secret modify_ldt vmsplice remap_file_pages "
    "mbind set_mempolicy set_mempolicy_home_node get_mempolicy migrate_pages move_pages "
    # the machine itself
    "kexec_load kexec_file_load init_module finit_module delete_module create_module query_module get_kernel_syms "
    "reboot settimeofday clock_settime clock_settime64 clock_adjtime clock_adjtime64 adjtimex stime syslog acct vhangup "
    "iopl ioperm sethostname setdomainname lookup_dcookie nfsservctl uselib ustat sysfs _sysctl"
).split()
"""Refused with EPERM; names that this architecture does not have are passed over."""

ABSENT: Final = (457, 458, 467, *range(470, 512))
"""Refused with ENOSYS, by number, as every architecture has the same from 424 on and libseccomp knows only the names of its
own day: statmount, listmount, open_tree_attr, and what is younger than this list, since nobody has judged it."""

FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Socket families that are left; every other one does not exist (EAFNOSUPPORT)."""

_ABOVE: Final = 64
"""Above every family that there is."""
_NETLINK_ROUTE: Final = 0
_SOCK_PACKET: Final = 10
_SOCK_KINDS: Final = 0xF
_DCCP: Final = 33
_HIGH_PROTOCOLS: Final = socket.IPPROTO_ICMPV6 + 1
"""From here on lie SCTP, L2TP, UDP-Lite, SMC and MPTCP; with DCCP, all of the internet's that are more than TCP, UDP and ping."""

_NAMESPACES: Final = {
    "CLONE_NEWNS": 0x20000,
    "CLONE_NEWCGROUP": 0x2000000,
    "CLONE_NEWUTS": 0x4000000,
    "CLONE_NEWIPC": 0x8000000,
}
_CLONE_NEWTIME: Final = 0x80
"""Of `unshare` alone: to `clone` it is a part of the signal's number."""

_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_TIOCSETD: Final = 0x5423
"""Line disciplines: drivers of modems, which a pseudo-terminal takes as well."""
_TABLES: Final = ((0, (64, 65, 96, 97, 128, 129)), (41, (64, 65)))
"""(Level, options) of setsockopt that replace tables of packet filters in a net namespace of one's own."""
_INT: Final = 0xFFFFFFFF
"""The kernel reads these arguments as int; the high half must not fool the filter."""


@cache
def browser_filter() -> bytes:
    """Return the `browser` profile as BPF bytes (about 3 KiB; built in 5 ms)."""
    import pyseccomp  # noqa: PLC0415 - loads libseccomp2, which doctor reports when it is missing

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    # calls of a foreign architecture, 32-bit ones among them: the process, and not the thread alone
    rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    for name in REFUSED:
        try:
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (OSError, ValueError, RuntimeError):
            continue  # not a call of this architecture
    # glibc falls back to clone, whose flags a filter can read
    for absent in ("clone3", *ABSENT):
        rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), absent)
    _refuse_families(pyseccomp, rules)
    _refuse_protocols(pyseccomp, rules)
    _refuse_namespaces(pyseccomp, rules)
    _refuse_settings(pyseccomp, rules)
    return _exported(rules)


def _refuse_families(seccomp: Any, rules: Any) -> None:  # noqa: ANN401 - pyseccomp has no types
    refuse = seccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(_ABOVE)) - set(FAMILIES):
        rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.EQ, family))
    rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.GE, _ABOVE))  # of all 64 bits: no high half gets by


def _refuse_protocols(seccomp: Any, rules: Any) -> None:  # noqa: ANN401 - as above
    """Leave TCP, UDP and ping; and of netlink what the C library asks for the interfaces, and Chromium for their changes."""
    absent, arg = seccomp.ERRNO(errno.EPROTONOSUPPORT), seccomp.Arg
    for family in (socket.AF_INET, socket.AF_INET6):
        of_internet = arg(0, seccomp.EQ, family)
        rules.add_rule(absent, "socket", of_internet, arg(2, seccomp.EQ, _DCCP))
        rules.add_rule(absent, "socket", of_internet, arg(2, seccomp.GE, _HIGH_PROTOCOLS))
        for kind in (socket.SOCK_RAW, _SOCK_PACKET):
            raw = arg(1, seccomp.MASKED_EQ, _SOCK_KINDS, kind)
            rules.add_rule(seccomp.ERRNO(errno.EPERM), "socket", of_internet, raw)
    rules.add_rule(absent, "socket", arg(0, seccomp.EQ, socket.AF_NETLINK), arg(2, seccomp.GE, _NETLINK_ROUTE + 1))


def _refuse_namespaces(seccomp: Any, rules: Any) -> None:  # noqa: ANN401 - as above
    """Leave what Chromium's sandbox is made of: user, pid and net."""
    for call, flags in (("clone", _NAMESPACES.values()), ("unshare", (*_NAMESPACES.values(), _CLONE_NEWTIME))):
        for flag in flags:
            rules.add_rule(seccomp.ERRNO(errno.EPERM), call, seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))


def _refuse_settings(seccomp: Any, rules: Any) -> None:  # noqa: ANN401 - as above
    refuse, arg, masked = seccomp.ERRNO(errno.EPERM), seccomp.Arg, seccomp.MASKED_EQ
    for request in (_TIOCSTI, _TIOCLINUX, _TIOCSETD):
        rules.add_rule(refuse, "ioctl", arg(1, masked, _INT, request))
    for level, options in _TABLES:
        for option in options:
            rules.add_rule(refuse, "setsockopt", arg(1, masked, _INT, level), arg(2, masked, _INT, option))
    # lowered from 1 to 0, it would let the machine's own handler of core dumps have one: see `bubblewrap._core_limit`
    rules.add_rule(refuse, "setrlimit", arg(0, masked, _INT, resource.RLIMIT_CORE))
    rules.add_rule(refuse, "prlimit64", arg(1, masked, _INT, resource.RLIMIT_CORE), arg(2, seccomp.NE, 0))
    # another personality makes memory easier to guess; 0 is the usual one, and all bits ask for the present one: in every
    # other there is a bit that is set beside one that is not
    for bit in range(32):
        beside = 1 << (bit + 1) % 32
        rules.add_rule(refuse, "personality", arg(0, masked, 1 << bit | beside, 1 << bit))


def _exported(rules: object) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)  # type: ignore[attr-defined]
        file.seek(0)
        return os.read(file.fileno(), 1024**2)
