"""What every isolated sandbox is born with, whoever makes it.

Flows in: nothing. Flows out: the kernel host's environment, what of /proc is hidden, and the limits that are the same everywhere.
Decided here: what nothing inside needs to know of the machine.
"""

from __future__ import annotations

import resource
from typing import Final

HOST_PROCESSES: Final = 1024
"""Processes and threads that kernel host, desktop and browser may have when cells get no more."""

HOST_FOLDER: Final = "/run/kernel-host"
"""The kernel host's own: sockets, logs and Chromium's profile, where a cell that fills /tmp does not meet them."""

BROWSER_FOLDER: Final = "/run/browser"
"""Chromium's own, for what it would put into /tmp, and into /dev/shm, both of which a cell can fill. Chromium 156 keeps most of
what its processes share in no folder; earlier ones ended, or loaded no page, without room in /dev/shm."""

ENVIRONMENT: Final = {
    "PATH": "/opt/cellwright/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/agent",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
}

HIDDEN_FILES: Final = (
    *("/proc/cmdline", "/proc/config.gz", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/key-users"),
    *("/proc/iomem", "/proc/ioports", "/proc/interrupts", "/proc/modules", "/proc/partitions", "/proc/diskstats"),
    *("/proc/sched_debug", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/latency_stats"),
)
HIDDEN_FOLDERS: Final = (
    "/proc/acpi",
    "/proc/bus",
    "/proc/driver",
    "/proc/fs",
    "/proc/irq",
    "/proc/pressure",
    "/proc/scsi",
)
"""Anybody may write to those of `pressure`: each writer is a timer of the Linux kernel's."""


def core_limit() -> int:
    """Return the limit of core dumps, which the filter keeps: 1 byte is too little for a file, and stops a handler.

    With 0 bytes there is no file, but a program that `core_pattern` pipes to would still be run, as root and out here, with
    the memory of whatever crashes inside. Where our own limit is 0, it can't be raised to 1.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return 0 if hard == 0 else 1


def tmp_sizes(tmp_bytes: int) -> str:
    """Return the sizes of all that can be written to, as a session's limits say them."""
    return f"{tmp_bytes} each for /tmp, /dev/shm, home, {HOST_FOLDER} and {BROWSER_FOLDER} by tmpfs size"
