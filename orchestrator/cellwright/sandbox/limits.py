"""Which limits hold on this machine, and by what means.

Flows in: the limits of a Spec, and what the kernel offers our user. Flows out: for each limit one sentence, true of the
bubblewrap backend as it is. Decided here: nothing is called enforced that is not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from cellwright.sandbox.base import Limits

_GROUPS: Final = Path("/sys/fs/cgroup")


def limits_in_force(limits: Limits, *, groups: Path = _GROUPS) -> dict[str, str]:
    """Return each limit's name with the means by which it holds, or `not enforced` with the reason.

    Args:
        limits: What a sandbox is to be held to.
        groups: Where the kernel's control groups are mounted.
    """
    return {
        "processes": f"{limits.processes} by rlimit within the user namespace",
        "open_files": f"{limits.open_files} a process by rlimit",
        "tmp_bytes": f"{limits.tmp_bytes} each for /tmp, /dev/shm, home and /run/kernel-host by tmpfs size",
        "memory_bytes": f"not enforced: no memory group is set up ({memory_groups(groups)})",
    }


def memory_groups(groups: Path = _GROUPS) -> str:
    """Return what this machine offers for limiting a group's memory, as a clause."""
    if (groups / "cgroup.controllers").is_file():
        if "memory" not in (groups / "cgroup.controllers").read_text().split():
            return "cgroup v2 without the memory controller"
        return "cgroup v2 is there" if os.access(groups, os.W_OK) else "cgroup v2 is there, and is not ours to write"
    if (groups / "memory").is_dir():
        if os.access(groups / "memory", os.W_OK):
            return "cgroup v1 is there"
        return "cgroup v1 is there, and is not ours to write"
    return "no cgroups are mounted"
