"""The control group that holds one sandbox to its memory.

Flows in: how many bytes a sandbox may have, and where this machine lets us make groups. Flows out: a `MemoryGroup` that a
command enters before it becomes the sandbox, or a `NoGroup` in its place, with the reason. Decided here: the order in which groups are
looked for (version 2, then version 1, each at or beside our own, so that limits which hold for us hold for the sandbox
too); that swap counts; and that a group whose owner was killed is removed by its keeper, or else by whoever makes the
next one.

A systemd user scope is not tried: nothing here could show that it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cellwright.sandbox.keeper import Kept, kept_group

_SELF: Final = Path("/proc/self")
_PREFIX: Final = "cellwright-"
_GONE_S: Final = 2.0
"""Seconds that a group whose processes have all ended may still count as in use; a millisecond is usual."""
_LOOK_EVERY_S: Final = 0.01
_TRIES: Final = 5
"""So many in a row can't all have been met by others who make groups in the same moment."""
_HAS_PROCESSES: Final = "our own group has processes"
"""Such a one gives no controllers to groups below it."""
_UNREACHABLE: Final = "our own group lies outside of what is mounted"

_ENTER: Final = 'echo 0 >&"$0" && eval "exec $0>&-" && exec "$@"'
"""A shell's program: enter the group whose `cgroup.procs` is open as $0, close that, become the command.

The descriptor was opened by us, so the shell may already run as the sandbox's uid; nothing inside inherits it.
"""


class _Unusable(Exception):
    """No group can be made in a hierarchy. The message is the reason, a clause."""


@dataclass(frozen=True)
class _Files:
    """What one version of groups calls things."""

    version: Literal["v1", "v2"]
    limits: tuple[tuple[str, bool], ...]
    """Files into which the limit is written; True: it may be absent, where swap is not accounted for."""
    events: str
    """Has a line `oom_kill N`: so many were killed since the group was made."""
    peak: str
    """Most bytes that it has had at once; absent before Linux 5.19 in version 2."""


_V1: Final = _Files(
    "v1",
    (("memory.limit_in_bytes", False), ("memory.memsw.limit_in_bytes", True)),
    "memory.oom_control",
    "memory.max_usage_in_bytes",
)
_V2: Final = _Files("v2", (("memory.max", False), ("memory.swap.max", True)), "memory.events", "memory.peak")


class MemoryGroup:
    """One group, ours until it is removed. A lock on its folder says so, and ends with our process."""

    def __init__(self, folder: Path, files: _Files, lock: int) -> None:
        self.folder = folder
        self._files = files
        self._lock = lock
        self._kept: Kept | None = None
        self._procs: int | None = os.open(folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def __repr__(self) -> str:
        return f"<MemoryGroup {self.version}: {self.folder}>"

    @property
    def version(self) -> str:
        """`v1` or `v2`."""
        return self._files.version

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the command must inherit to enter."""
        return () if self._procs is None else (self._procs,)

    @property
    def events(self) -> Path:
        """File with a line `oom_kill N`."""
        return self.folder / self._files.events

    @property
    def peak(self) -> Path | None:
        """File with the most bytes that it has had; None where there is none."""
        peak = self.folder / self._files.peak
        return peak if peak.exists() else None

    def entered_by(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the group and becomes `command`; it fails rather than stay outside."""
        return ["/bin/bash", "-pc", _ENTER, *map(str, self.descriptors), *command]

    def keep(self) -> None:
        """Have it removed if we are killed."""
        self._kept = kept_group(self.folder)

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.let_go()

    def entered(self) -> None:
        """Nobody enters any more."""
        if self._procs is not None:
            os.close(self._procs)
            self._procs = None

    def discard(self) -> None:
        """Remove it where nothing has entered."""
        self.entered()
        _removed(self.folder)
        self._let_go()
        os.close(self._lock)
        self._lock = -1

    async def remove(self) -> None:
        """Remove it, once the last of its processes counts as gone; safe to call twice."""
        self.entered()
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        loop = asyncio.get_running_loop()
        end = loop.time() + _GONE_S
        try:
            while not _removed(self.folder) and loop.time() < end:  # noqa: ASYNC110 - the Linux kernel tells nobody
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            self._let_go()
            os.close(lock)  # if it is still there, whoever makes the next one removes it


@dataclass(frozen=True)
class NoGroup:
    """Stands where no group could be made: whatever enters is held to nothing."""

    reason: str
    """A clause."""
    descriptors: tuple[int, ...] = ()
    events: None = None
    peak: None = None

    def entered_by(self, command: Sequence[str]) -> list[str]:
        """Return the command."""
        return [*command]

    def entered(self) -> None:
        """Nothing is open."""

    def discard(self) -> None:
        """Nothing is there."""

    async def remove(self) -> None:
        """Nothing is there."""


def memory_group(limit_bytes: int, *, proc: Path = _SELF) -> MemoryGroup | NoGroup:
    """Make a group that holds what enters it to so many bytes, swap included, where that can be done.

    Args:
        limit_bytes: Most memory, files in its tmpfs among it.
        proc: Where our own groups and mounts are told.
    """
    reasons = []
    for find, files in ((_parents_v2, _V2), (_parents_v1, _V1)):
        try:
            for parent in find(proc):
                try:
                    _remove_left_behind(parent)
                    group = _made(parent, files, limit_bytes)
                    if _can_be_entered(group):
                        group.keep()
                        return group
                    group.discard()
                    reasons.append(f"cgroup {files.version}: no process of ours may move to a group in {parent}")
                except OSError as error:
                    reasons.append(f"cgroup {files.version}: {parent} is not ours to use ({error.strerror})")
        except _Unusable as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"cgroup {files.version} can't be read: {error.strerror}")
    return NoGroup("; ".join(reasons))


def _parents_v2(proc: Path) -> Iterator[Path]:
    """Yield our own group and the one around it, as far as groups with a memory limit can be made there."""
    mount, own = _own(proc, "cgroup v2", lambda kind, _: kind == "cgroup2", lambda line: line.startswith("0::"))
    if "memory" not in (own / "cgroup.controllers").read_text().split():
        raise _Unusable("cgroup v2 has no memory controller for us")
    yield from _with_memory(own)
    limit = own / "memory.max"
    if own == mount:
        raise _Unusable("cgroup v2: our own group is the outermost here, and has processes")
    if limit.exists() and limit.read_text().strip() != "max":
        raise _Unusable(f"cgroup v2: {_HAS_PROCESSES}, and a group beside it would not be under its limit")
    yield from _with_memory(own.parent)
    raise _Unusable(f"cgroup v2: {_HAS_PROCESSES}, and the one around it is not ours")


def _with_memory(parent: Path) -> Iterator[Path]:
    """Yield a group if those below it have the memory controller, given by us if need be."""
    control = parent / "cgroup.subtree_control"
    if "memory" not in control.read_text().split():
        try:
            control.write_text("+memory")
        except OSError:  # not ours, or it has processes
            return
    yield parent


def _parents_v1(proc: Path) -> Iterator[Path]:
    """Yield our own group, in which anybody who may write there makes others."""
    _, own = _own(
        proc,
        "cgroup v1",
        lambda kind, options: kind == "cgroup" and "memory" in options,
        lambda line: "memory" in line.split(":")[1].split(","),
    )
    yield own


def _own(
    proc: Path, name: str, is_it: Callable[[str, Sequence[str]], bool], is_ours: Callable[[str], bool]
) -> tuple[Path, Path]:
    """Return where a hierarchy is mounted, and the folder of our own group in it."""
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        if is_it(kind, options.split(",")):
            root, mount = before.split(" ")[3:5]
            break
    else:
        raise _Unusable(f"no {name} with the memory controller is mounted")
    paths = [line.split(":", 2)[2] for line in (proc / "cgroup").read_text().splitlines() if is_ours(line)]
    if not paths or ".." in paths[0].split("/") or not Path(paths[0]).is_relative_to(root):
        raise _Unusable(f"{name}: {_UNREACHABLE}")
    own = Path(mount) / Path(paths[0]).relative_to(root)
    if not own.is_dir():
        raise _Unusable(f"{name}: {_UNREACHABLE}")
    return Path(mount), own


def _made(parent: Path, files: _Files, limit_bytes: int) -> MemoryGroup:
    folder, lock = _locked_folder(parent)
    try:
        for name, may_be_absent in files.limits:
            if may_be_absent and not (folder / name).exists():
                continue
            (folder / name).write_text("0" if name == "memory.swap.max" else str(limit_bytes))
        return MemoryGroup(folder, files, lock)
    except BaseException:
        os.close(lock)
        _removed(folder)
        raise


def _can_be_entered(group: MemoryGroup) -> bool:
    """Try it, which takes 3 ms: version 2 also asks for a group around the old and the new one, which may be somebody else's."""
    command = group.entered_by(["/bin/true"])
    return subprocess.run(command, check=False, pass_fds=group.descriptors, stderr=subprocess.DEVNULL).returncode == 0


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """Make a folder and lock it; one that another process took for left behind in between is made again."""
    for _ in range(_TRIES):
        folder = parent / f"{_PREFIX}{secrets.token_hex(8)}"
        folder.mkdir()
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)
    raise FileNotFoundError(errno.ENOENT, "what is made there is removed by others")


def _remove_left_behind(parent: Path) -> None:
    """Remove the groups that nobody holds: their owners were killed, and their sandboxes died with them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # its owner is removing it, or a process in it is just dying
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder.rmdir()
            finally:
                os.close(lock)


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process that has ended is still counted
        return False
    return True
