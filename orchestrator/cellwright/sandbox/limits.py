"""Which limits hold on this machine, and by what means.

Flows in: the limits of a Spec, and the control groups of its sandbox, as far as it has some. Flows out: for each limit one sentence,
true of the bubblewrap backend as it is. Decided here: nothing is called enforced that is not.
"""

from __future__ import annotations

from cellwright.sandbox.base import Limits
from cellwright.sandbox.born_with import tmp_sizes
from cellwright.sandbox.control_groups import ControlGroups, Tree, control_groups
from cellwright.sandbox.memory_shares import browser_bytes, process_bytes


def limits_here(limits: Limits) -> dict[str, str]:
    """Return what `limits_in_force` would say of a sandbox that is started now; groups are made and removed."""
    groups = control_groups(limits)
    try:
        return limits_in_force(limits, groups)
    finally:
        groups.discard()


def limits_in_force(limits: Limits, groups: ControlGroups) -> dict[str, str]:
    """Return each limit's name with the means by which it holds, or what of it does not, and why.

    Args:
        limits: What a sandbox is to be held to.
        groups: Its control groups, as far as it has some.
    """
    one = f"{process_bytes(limits)} for each process of cells by rlimit"
    inodes = "however many files, as far as memory goes"
    if isinstance(groups.memory, Tree):
        by = f"by cgroup {groups.memory.version}"
        memory = (
            f"{limits.memory_bytes} for the whole sandbox, of it {browser_bytes(limits)} for its browser, {by}; {one}"
        )
    else:
        memory = f"{one}; not enforced for the sandbox as a whole, nor for its browser: {groups.memory}"
        inodes = "how many files is not enforced"
    return {
        "processes": f"{limits.processes} by rlimit within the user namespace",
        "open_files": f"{limits.open_files} a process by rlimit",
        "tmp_bytes": f"{tmp_sizes(limits.tmp_bytes)}; {inodes}",
        "memory_bytes": memory,
        "cpus": _cpus(limits, groups),
    }


def _cpus(limits: Limits, groups: ControlGroups) -> str:
    if not isinstance(groups.cpu, Tree):
        return f"not enforced, and no fair share either: {groups.cpu}"
    share = f"an even share with every other sandbox by cgroup {groups.cpu.version}"
    return share if limits.cpus is None else f"{limits.cpus:g} by cgroup {groups.cpu.version}; {share}"
