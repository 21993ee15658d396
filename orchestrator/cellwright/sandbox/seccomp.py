"""The system calls that a sandbox may not make.

Flows in: nothing. Flows out: a filter as BPF bytes, for bubblewrap's `--seccomp`; and the same as JSON, for OCI engines.
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
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Where:
    """A condition on one argument of a call."""

    argument: int
    comparison: str
    """`EQ`, `NE`, `GE`, or `MASKED_EQ`."""
    value: int
    """What it is compared with; of `MASKED_EQ` the mask."""
    masked: int = 0
    """Of `MASKED_EQ` what is left under the mask."""


@dataclass(frozen=True)
class _Rule:
    """A call that fails where every condition holds."""

    error: int
    call: str | int
    where: tuple[_Where, ...] = ()


@cache
def browser_filter() -> bytes:
    """Return the `browser` profile as BPF bytes (about 3 KiB; built in 5 ms)."""
    import pyseccomp  # noqa: PLC0415 - loads libseccomp2, which doctor reports when it is missing

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    # calls of a foreign architecture, 32-bit ones among them: the process, and not the thread alone
    rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    for rule in _rules():
        where = (
            pyseccomp.Arg(one.argument, getattr(pyseccomp, one.comparison), one.value, one.masked) for one in rule.where
        )
        try:
            rules.add_rule(pyseccomp.ERRNO(rule.error), rule.call, *where)
        except (OSError, ValueError, RuntimeError):
            if rule.call in REFUSED:  # not a call of this architecture
                continue
            raise
    return _exported(rules)


def browser_profile() -> dict[str, Any]:
    """Return the same as engines of OCI images read it (`--security-opt seccomp=FILE`), but for the calls without a name.

    Those are closed by the filter itself, which the sandbox's first process takes on.
    """
    calls = [
        {
            "names": [rule.call],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": rule.error,
            "args": [
                {
                    "index": one.argument,
                    "op": f"SCMP_CMP_{one.comparison}",
                    "value": one.value,
                    "valueTwo": one.masked,
                }
                for one in rule.where
            ],
        }
        for rule in _rules()
        if isinstance(rule.call, str)
    ]
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": calls}


def _rules() -> Iterator[_Rule]:
    for name in REFUSED:
        yield _Rule(errno.EPERM, name)
    # glibc falls back to clone, whose flags a filter can read
    for absent in ("clone3", *ABSENT):
        yield _Rule(errno.ENOSYS, absent)
    yield from _families()
    yield from _protocols()
    yield from _namespaces()
    yield from _settings()


def _families() -> Iterator[_Rule]:
    for family in sorted(set(range(_ABOVE)) - set(FAMILIES)):
        yield _Rule(errno.EAFNOSUPPORT, "socket", (_Where(0, "EQ", family),))
    # of all 64 bits: no high half gets by
    yield _Rule(errno.EAFNOSUPPORT, "socket", (_Where(0, "GE", _ABOVE),))


def _protocols() -> Iterator[_Rule]:
    """Leave TCP, UDP and ping; and of netlink what the C library asks for the interfaces, and Chromium for their changes."""
    absent = errno.EPROTONOSUPPORT
    for family in (socket.AF_INET, socket.AF_INET6):
        of_internet = _Where(0, "EQ", family)
        yield _Rule(absent, "socket", (of_internet, _Where(2, "EQ", _DCCP)))
        yield _Rule(absent, "socket", (of_internet, _Where(2, "GE", _HIGH_PROTOCOLS)))
        for kind in (socket.SOCK_RAW, _SOCK_PACKET):
            yield _Rule(errno.EPERM, "socket", (of_internet, _Where(1, "MASKED_EQ", _SOCK_KINDS, kind)))
    yield _Rule(absent, "socket", (_Where(0, "EQ", socket.AF_NETLINK), _Where(2, "GE", _NETLINK_ROUTE + 1)))


def _namespaces() -> Iterator[_Rule]:
    """Leave what Chromium's sandbox is made of: user, pid and net."""
    for call, flags in (("clone", _NAMESPACES.values()), ("unshare", (*_NAMESPACES.values(), _CLONE_NEWTIME))):
        for flag in flags:
            yield _Rule(errno.EPERM, call, (_Where(0, "MASKED_EQ", flag, flag),))


def _settings() -> Iterator[_Rule]:
    for request in (_TIOCSTI, _TIOCLINUX, _TIOCSETD):
        yield _Rule(errno.EPERM, "ioctl", (_Where(1, "MASKED_EQ", _INT, request),))
    for level, options in _TABLES:
        for option in options:
            where = (_Where(1, "MASKED_EQ", _INT, level), _Where(2, "MASKED_EQ", _INT, option))
            yield _Rule(errno.EPERM, "setsockopt", where)
    # lowered from 1 to 0, it would let the machine's own handler of core dumps have one: see `born_with.core_limit`
    core = resource.RLIMIT_CORE
    yield _Rule(errno.EPERM, "setrlimit", (_Where(0, "MASKED_EQ", _INT, core),))
    yield _Rule(errno.EPERM, "prlimit64", (_Where(1, "MASKED_EQ", _INT, core), _Where(2, "NE", 0)))
    # another personality makes memory easier to guess; 0 is the usual one, and all bits ask for the present one: in every
    # other there is a bit that is set beside one that is not
    for bit in range(32):
        beside = 1 << (bit + 1) % 32
        yield _Rule(errno.EPERM, "personality", (_Where(0, "MASKED_EQ", 1 << bit | beside, 1 << bit),))


def _exported(rules: object) -> bytes:
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)  # type: ignore[attr-defined]
        file.seek(0)
        return os.read(file.fileno(), 1024**2)
