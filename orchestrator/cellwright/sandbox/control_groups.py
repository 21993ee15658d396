"""The control groups that hold one sandbox to its memory and to its share of the processors.

Flows in: the limits of a Spec, and where this machine lets us make groups. Flows out: `ControlGroups`, which a command enters
before it becomes the sandbox, and whose parts the kernel host then gives its children; or, for memory and for processors, the
reason why there is none. Decided here: the order in which places are looked for (version 2, then version 1, each at or beside
our own group, so that limits which hold for us hold for the sandbox too); that swap counts; the parts that a sandbox has; and
that a group whose owner was killed is removed by its cleaner, or else by whoever makes the next one.

A part each, because they are limited apart: a page that takes all memory is not to end a kernel, and code that forks without
end is not to take the processors from the kernel host that ends it. What cells start shares one part, however many they are.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cellwright.sandbox.base import Limits
from cellwright.sandbox.cleaner import Removal, group_removal
from cellwright.sandbox.memory_shares import browser_bytes
from cellwright_kernel.wire import GroupPart

_SELF: Final = Path("/proc/self")
_PREFIX: Final = "cellwright-"
_HOST: Final = "host"
"""The part that the sandbox starts in; the kernel host and the desktop stay there."""
_PARTS: Final[tuple[GroupPart, ...]] = ("cells", "browser")
_PERIOD_US: Final = 100_000
_GONE_S: Final = 2.0
"""Seconds that a group whose processes have all ended may still count as in use; a millisecond is usual."""
_LOOK_EVERY_S: Final = 0.01
_TRIES: Final = 5
"""So many in a row can't all have been met by others who make groups in the same moment."""
_HAS_PROCESSES: Final = "our own group has processes"
"""Such a one gives no controllers to groups below it."""
_UNREACHABLE: Final = "our own group lies outside of what is mounted"

_ENTER: Final = 'for fd in $0; do echo 0 >&"$fd" || exit; eval "exec $fd>&-"; done; exec "$@"'
"""A shell's program: enter the groups whose `cgroup.procs` are open as $0, close these, become the command.

The descriptors were opened by us, so the shell may already run as the sandbox's uid.
"""

Version = Literal["v1", "v2"]
Controller = Literal["memory", "cpu"]


class _Unusable(Exception):
    """No group can be made in a hierarchy. The message is the reason, a clause."""


@dataclass(frozen=True)
class MemoryFiles:
    """What the Linux kernel tells of a group's memory."""

    events: tuple[Path, ...]
    """Each has a line `oom_kill N`: so many were killed since the group was made. Together they count all."""
    peak: Path | None
    """Most bytes that it has had at once; absent before Linux 5.19 in version 2."""


class Tree:
    """A group in one hierarchy, with one below it for each part; ours until it is removed.

    A lock on its folder says so, and ends with our process.
    """

    def __init__(self, folder: Path, version: Version, controllers: frozenset[Controller], lock: int) -> None:
        self.folder = folder
        self.version = version
        self.controllers = controllers
        self._lock = lock
        self._removal: Removal | None = None
        self._procs: dict[str, int] = {}
        for part in (_HOST, *_PARTS):
            self._procs[part] = os.open(folder / part / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    def __repr__(self) -> str:
        return f"<Tree {self.version}: {self.folder}>"

    @property
    def memory(self) -> MemoryFiles:
        """Of the whole sandbox."""
        return self._memory_files(self.folder, [self.folder / part for part in (_HOST, *_PARTS)])

    @property
    def browser_memory(self) -> MemoryFiles:
        """Of the browser alone."""
        return self._memory_files(self.folder / "browser", [self.folder / "browser"])

    def descriptor(self, part: str) -> int:
        """Return what is written to, to have a process enter a part."""
        return self._procs[part]

    def remove_if_killed(self) -> None:
        """Have it removed if we are killed."""
        self._removal = group_removal(self.folder)

    def entered(self) -> None:
        """Nobody enters any more by what we hold."""
        while self._procs:
            os.close(self._procs.popitem()[1])

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

    def _let_go(self) -> None:
        if self._removal is not None:
            self._removal.call_off()

    def _memory_files(self, whole: Path, leaves: Sequence[Path]) -> MemoryFiles:
        if self.version == "v1":  # each group counts its own only
            events = tuple(leaf / "memory.oom_control" for leaf in leaves)
            return MemoryFiles(events, whole / "memory.max_usage_in_bytes")
        peak = whole / "memory.peak"
        return MemoryFiles((whole / "memory.events",), peak if peak.exists() else None)


@dataclass(frozen=True)
class ControlGroups:
    """What holds one sandbox; nothing at all where no group could be made."""

    memory: Tree | str
    """What holds its memory; or why nothing does, a clause."""
    cpu: Tree | str
    """What holds its share of the processors, as `memory`; the same tree in version 2."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the command must inherit."""
        return tuple(tree.descriptor(part) for tree in self._trees for part in (_HOST, *_PARTS))

    @property
    def parts(self) -> Mapping[GroupPart, tuple[int, ...]]:
        """What the kernel host writes a process id to, to give a child to a part; empty without groups."""
        return {part: tuple(tree.descriptor(part) for tree in self._trees) for part in _PARTS if self._trees}

    def entered_by(self, command: Sequence[str]) -> list[str]:
        """Return a command that enters the groups and becomes `command`; it fails rather than stay outside."""
        return _entering(self._trees, command) if self._trees else [*command]

    def entered(self) -> None:
        """The sandbox has inherited what it enters by."""
        for tree in self._trees:
            tree.entered()

    def discard(self) -> None:
        """Remove them where nothing has entered."""
        for tree in self._trees:
            tree.discard()

    async def remove(self) -> None:
        """Remove them, once the last of their processes counts as gone; safe to call twice."""
        for tree in self._trees:
            await tree.remove()

    @property
    def _trees(self) -> tuple[Tree, ...]:
        return tuple({id(tree): tree for tree in (self.memory, self.cpu) if isinstance(tree, Tree)}.values())


def control_groups(limits: Limits, *, proc: Path = _SELF) -> ControlGroups:
    """Make groups that hold what enters them, where that can be done.

    Args:
        limits: Of them the memory, files in tmpfs and swap among it, and the processors.
        proc: Where our own groups and mounts are told.
    """
    second = _first_usable("v2", ("memory", "cpu"), limits, proc)
    if isinstance(second, Tree):
        has_cpu = "cpu" in second.controllers
        return ControlGroups(second, second if has_cpu else "cgroup v2 has no processor controller for us")
    found: dict[Controller, Tree | str] = {}
    for controller in ("memory", "cpu"):
        first = _first_usable("v1", (controller,), limits, proc)
        found[controller] = first if isinstance(first, Tree) else f"{second}; {first}"
    return ControlGroups(found["memory"], found["cpu"])


def _first_usable(version: Version, controllers: tuple[Controller, ...], limits: Limits, proc: Path) -> Tree | str:
    """Return a group in the first place that allows one; or why none does, clauses."""
    reasons = []
    try:
        for parent in _parents_v2(proc) if version == "v2" else _parents_v1(proc, controllers[0]):
            try:
                _remove_left_behind(parent)
                tree = _made(parent, version, controllers, limits)
                if _can_be_entered(tree):
                    tree.remove_if_killed()
                    return tree
                tree.discard()
                reasons.append(f"cgroup {version}: no process of ours may move to a group in {parent}")
            except OSError as error:
                reasons.append(f"cgroup {version}: {parent} is not ours to use ({error.strerror})")
    except _Unusable as error:
        reasons.append(str(error))
    except OSError as error:
        reasons.append(f"cgroup {version} can't be read: {error.strerror}")
    return "; ".join(reasons)


def _parents_v2(proc: Path) -> Iterator[Path]:
    """Yield our own group and the one around it, as far as groups with a memory limit can be made there."""
    mount, own = _own(proc, "v2", "memory")
    if "memory" not in (own / "cgroup.controllers").read_text().split():
        raise _Unusable("cgroup v2 has no memory controller for us")
    if _gives(own, "memory"):
        yield own
    limit = own / "memory.max"
    if own == mount:
        raise _Unusable("cgroup v2: our own group is the outermost here, and has processes")
    if limit.exists() and limit.read_text().strip() != "max":
        raise _Unusable(f"cgroup v2: {_HAS_PROCESSES}, and a group beside it would not be under its limit")
    if _gives(own.parent, "memory"):
        yield own.parent
    raise _Unusable(f"cgroup v2: {_HAS_PROCESSES}, and the one around it is not ours")


def _gives(parent: Path, controller: Controller) -> bool:
    """Return whether groups below have a controller, given by us if need be."""
    control = parent / "cgroup.subtree_control"
    if controller not in control.read_text().split():
        try:
            control.write_text(f"+{controller}")
        except OSError:  # not ours, or it has processes
            return False
    return True


def _parents_v1(proc: Path, controller: Controller) -> Iterator[Path]:
    """Yield our own group, in which anybody who may write there makes others."""
    _, own = _own(proc, "v1", controller)
    yield own


def _own(proc: Path, version: Version, controller: Controller) -> tuple[Path, Path]:
    """Return where a hierarchy is mounted, and the folder of our own group in it."""
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        if kind == "cgroup2" if version == "v2" else kind == "cgroup" and controller in options.split(","):
            root, mount = before.split(" ")[3:5]
            break
    else:
        raise _Unusable(f"no cgroup {version} with the {controller} controller is mounted")
    paths = []
    for line in (proc / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" if version == "v2" else controller in controllers.split(","):
            paths.append(path)
    if not paths or ".." in paths[0].split("/") or not Path(paths[0]).is_relative_to(root):
        raise _Unusable(f"cgroup {version}: {_UNREACHABLE}")
    own = Path(mount) / Path(paths[0]).relative_to(root)
    if not own.is_dir():
        raise _Unusable(f"cgroup {version}: {_UNREACHABLE}")
    return Path(mount), own


def _made(parent: Path, version: Version, wanted: tuple[Controller, ...], limits: Limits) -> Tree:
    """Make a group with its parts, and set what each may have."""
    given = {controller for controller in wanted if version == "v1" or _gives(parent, controller)}
    folder, lock = _locked_folder(parent)
    try:
        if version == "v2":
            given = {controller for controller in given if _gives(folder, controller)}
        for part in (_HOST, *_PARTS):
            (folder / part).mkdir()
        if "memory" in given:
            _limit_memory(folder, version, limits.memory_bytes)
            _limit_memory(folder / "browser", version, browser_bytes(limits))
        if "cpu" in given and limits.cpus is not None:
            _limit_cpu(folder, version, limits.cpus)
        return Tree(folder, version, frozenset(given), lock)
    except BaseException:
        os.close(lock)
        _removed(folder)
        raise


def _limit_memory(group: Path, version: Version, most: int) -> None:
    if version == "v2":
        (group / "memory.max").write_text(str(most))
        swap, value = group / "memory.swap.max", "0"
    else:
        (group / "memory.limit_in_bytes").write_text(str(most))
        swap, value = group / "memory.memsw.limit_in_bytes", str(most)
    if swap.exists():  # it is not where swap is not accounted for
        swap.write_text(value)


def _limit_cpu(group: Path, version: Version, cpus: float) -> None:
    quota = int(cpus * _PERIOD_US)
    if version == "v2":
        (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
    else:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota))


def _can_be_entered(tree: Tree) -> bool:
    """Try it, which takes 3 ms: version 2 also asks for a group around the old and the new one, which may be somebody else's."""
    descriptor = tree.descriptor(_HOST)
    command = _entering([tree], ["/bin/true"])
    return subprocess.run(command, check=False, pass_fds=(descriptor,), stderr=subprocess.DEVNULL).returncode == 0


def _entering(trees: Sequence[Tree], command: Sequence[str]) -> list[str]:
    return ["/bin/bash", "-pc", _ENTER, " ".join(str(tree.descriptor(_HOST)) for tree in trees), *command]


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
                _removed(folder)
            finally:
                os.close(lock)


def _removed(folder: Path) -> bool:
    """Remove a group and its parts; return whether nothing of it is there any more."""
    try:
        for part in (_HOST, *_PARTS):
            with contextlib.suppress(FileNotFoundError):
                (folder / part).rmdir()
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process that has ended is still counted
        return False
    return True
