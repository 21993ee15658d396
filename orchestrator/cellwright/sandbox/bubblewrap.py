"""Sandboxes made by bubblewrap: user, pid, net, ipc, uts and cgroup namespaces of their own, no daemon, no root.

Flows in: a Spec. Flows out: a running sandbox, its kernel host behind a socket that was made out here.
Decided here: what of the machine is visible inside (its /usr, its list of fonts, and the few things of /etc that `_ETC`
names, read-only), that the launcher never runs as uid 0, that nothing of the caller's environment enters, and which limits are set.

The kernel host inherits its listening socket, so nothing inside can take its place, and a pipe whose end tells it
that we are gone. The options go over a descriptor (`--args`), since /proc/1/cmdline is readable inside.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from cellwright.egress import forwards
from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import Limits, Sandbox, SandboxInfo, Spec
from cellwright.sandbox.born_with import (
    BROWSER_FOLDER,
    ENVIRONMENT,
    HIDDEN_FILES,
    HIDDEN_FOLDERS,
    HOST_FOLDER,
    HOST_PROCESSES,
    core_limit,
)
from cellwright.sandbox.control_groups import ControlGroups, MemoryFiles, Tree, control_groups
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import HostedSandbox, host_settings, place_to_start_in, start_hosted
from cellwright.sandbox.launch import Launched, memfd
from cellwright.sandbox.limits import limits_in_force
from cellwright.sandbox.memory_shares import browser_bytes, process_bytes
from cellwright.sandbox.place import Place
from cellwright.sandbox.runtime import chromium_path, kernel_folder, runtime_folder
from cellwright.sandbox.seccomp import browser_filter
from cellwright_kernel.wire import GroupMemory, HostSettings, MemoryLimit

_ETC: Final = ("fonts", "alternatives", "ld.so.cache", "ssl/certs", "mime.types", "X11")
"""What of the machine's /etc is visible inside. Fonts and loader cache are needed; the rest is absent if missing."""

_PASSWD: Final = "root:x:0:0::/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"  # noqa: S105 - no password in it
_GROUP: Final = "root:x:0:\nagent:x:1000:\n"
_HOSTS: Final = "127.0.0.1 localhost sandbox\n::1 localhost\n"


class BubblewrapBackend:
    """The default backend."""

    name = "bubblewrap"

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """See `Backend.start`."""
        command = shutil.which("bwrap")
        if command is None:
            raise SandboxUnavailable(
                "There is no bubblewrap (`bwrap`) on this machine. Usually the Debian package is not installed. "
                "Nothing was started, isolated or not. Run `apt-get install bubblewrap`, or `bash scripts/setup.sh`."
            )
        with place_to_start_in() as place:
            return await _start(command, spec, place, egress_socket)


class _BubblewrapSandbox(HostedSandbox):
    name = BubblewrapBackend.name

    def __init__(self, place: Place, launched: Launched, door: Door, spec: Spec, groups: ControlGroups) -> None:
        super().__init__(place, launched, door)
        self._spec = spec
        self._groups = groups

    @property
    def info(self) -> SandboxInfo:
        return SandboxInfo(
            backend=self.name,
            isolated=True,
            uid=self._place.uid,
            pid=self._launched.pid,
            limits=limits_in_force(self._spec.limits, self._groups),
        )

    async def _end(self) -> None:
        try:
            await super()._end()
        finally:
            await self._groups.remove()


async def _start(command: str, spec: Spec, place: Place, egress_socket: Path | None) -> Sandbox:
    groups = control_groups(spec.limits)
    try:
        return await _start_in(groups, command, spec, place, egress_socket)
    except BaseException:
        await groups.remove()
        raise


async def _start_in(
    groups: ControlGroups, command: str, spec: Spec, place: Place, egress_socket: Path | None
) -> Sandbox:
    with ExitStack() as undo:
        undo.callback(groups.entered)
        descriptors = _Descriptors(
            seccomp=memfd("seccomp", browser_filter()),
            passwd=memfd("passwd", _PASSWD.encode()),
            group=memfd("group", _GROUP.encode()),
            hosts=memfd("hosts", _HOSTS.encode()),
        )
        undo.callback(descriptors.close)
        options = _options(spec, descriptors, egress_socket, groups)
        args = memfd("args", b"\0".join(a.encode() for a in options) + b"\0")
        undo.callback(os.close, args)

        def command_at(door: str) -> list[str]:
            settings = host_settings(spec, door=door, forwards=forwards(spec.allow))
            settings = settings.model_copy(update={"own_loopback": True, "browser_folder": BROWSER_FOLDER})
            if egress_socket is not None:
                settings = settings.model_copy(update={"egress_socket": "/run/egress/" + egress_socket.name})
            settings = settings.model_copy(
                update={"memory": _memory_limit(spec.limits, groups), "groups": dict(groups.parts)}
            )
            limited = ["/usr/bin/prlimit", f"--core={core_limit()}", "--"]
            return groups.entered_by([*limited, command, "--args", str(args), "--", *_inner(spec, settings)])

        return await start_hosted(
            place,
            command_at,
            lambda launched, door: _BubblewrapSandbox(place, launched, door, spec, groups),
            keep=(args, *descriptors.all, *groups.descriptors),
        )


class _Descriptors:
    """The memory files that bubblewrap reads."""

    def __init__(self, *, seccomp: int, passwd: int, group: int, hosts: int) -> None:
        self.seccomp, self.passwd, self.group, self.hosts = seccomp, passwd, group, hosts
        self.all: tuple[int, ...] = (seccomp, passwd, group, hosts)

    def close(self) -> None:
        for descriptor in self.all:
            os.close(descriptor)
        self.all = ()


def _options(spec: Spec, fds: _Descriptors, egress_socket: Path | None, groups: ControlGroups) -> list[str]:
    more = [
        *("--perms", "0644", "--ro-bind-data", str(fds.passwd), "/etc/passwd"),
        *("--perms", "0644", "--ro-bind-data", str(fds.group), "/etc/group"),
        *("--perms", "0644", "--ro-bind-data", str(fds.hosts), "/etc/hosts"),
        *("--ro-bind", str(runtime_folder()), "/opt/cellwright"),
        *("--ro-bind", str(kernel_folder()), "/opt/cellwright/kernel"),
        *_chromium_bind(),
        *_memory_files(groups),
        *("--seccomp", str(fds.seccomp)),
    ]
    if egress_socket is not None:
        more += ["--ro-bind", str(egress_socket.parent), "/run/egress"]
    return bubblewrap_options(spec.limits, more)


def bubblewrap_options(limits: Limits, more: Sequence[str]) -> list[str]:
    """Return what every sandbox is made with, the doctor's too: it tries what is really started.

    Args:
        limits: The size of what can be written to.
        more: Options besides, among them everything to mount.
    """
    size = str(limits.tmp_bytes)
    return [
        *"--unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup".split(),
        *"--uid 1000 --gid 1000 --hostname sandbox --die-with-parent --new-session".split(),
        # no signal of a cell's ends or stops a namespace's first process, which so is the kernel host
        "--as-pid-1",
        *"--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin".split(),
        *"--symlink usr/lib /lib --symlink usr/lib64 /lib64 --dir /etc".split(),
        # without it every session would scan all fonts: fc-list 0.5 to 0.9 s instead of 0.1 to 0.2
        *("--ro-bind-try", "/var/cache/fontconfig", "/var/cache/fontconfig"),
        *(part for name in _ETC for part in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")),
        # as uid 0 outside, /proc/sys would be writable without the second mount; belt and braces for the rest
        *"--proc /proc --ro-bind /proc/sys /proc/sys --dev /dev".split(),
        *_hidden(),
        *("--perms", "1777", "--size", size, "--tmpfs", "/dev/shm"),  # noqa: S108 - the sandbox's own
        *("--perms", "1777", "--size", size, "--tmpfs", "/tmp"),  # noqa: S108 - the sandbox's own
        *("--dir", "/home", "--size", size, "--tmpfs", "/home/agent"),
        # the kernel host's: sockets, logs and Chromium's profile, where a cell that fills /tmp does not meet them
        *("--dir", "/run", "--perms", "0700", "--size", size, "--tmpfs", HOST_FOLDER),
        *("--perms", "0700", "--size", size, "--tmpfs", BROWSER_FOLDER),
        *("--dir", "/var", "--symlink", "/tmp", "/var/tmp"),  # noqa: S108 - the sandbox's own
        *("--chdir", "/home/agent", "--clearenv", "--cap-drop", "ALL"),
        *(part for name, value in ENVIRONMENT.items() for part in ("--setenv", name, value)),
        *more,
        # last: the root itself and /dev are tmpfs without a size, which a cell could fill; devices still take what is written
        *("--remount-ro", "/dev"),
        *("--remount-ro", "/"),
    ]


def _hidden() -> list[str]:
    """Return the options that hide what /proc tells of the machine and nothing inside needs."""
    files = [part for name in HIDDEN_FILES if Path(name).exists() for part in ("--dev-bind", "/dev/null", name)]
    folders = [name for name in HIDDEN_FOLDERS if Path(name).is_dir()]
    return files + [part for name in folders for part in ("--tmpfs", name, "--remount-ro", name)]


_MEMORY: Final = "/run/memory"


def _memory_files(groups: ControlGroups) -> list[str]:
    """What the kernel host reads of the groups; it can write to nothing of it."""
    if not isinstance(groups.memory, Tree):
        return []
    shown = {**_shown("sandbox", groups.memory.memory), **_shown("browser", groups.memory.browser_memory)}
    return [part for inside, file in shown.items() for part in ("--ro-bind", str(file), inside)]


def _memory_limit(limits: Limits, groups: ControlGroups) -> MemoryLimit:
    limit = MemoryLimit(process_bytes=process_bytes(limits), sandbox_bytes=limits.memory_bytes)
    if not isinstance(groups.memory, Tree):
        return limit
    sandbox = _group_memory("sandbox", limits.memory_bytes, groups.memory.memory)
    browser = _group_memory("browser", browser_bytes(limits), groups.memory.browser_memory)
    return limit.model_copy(update={"sandbox": sandbox, "browser": browser})


def _group_memory(name: str, most_bytes: int, files: MemoryFiles) -> GroupMemory:
    events = tuple(inside for inside, file in _shown(name, files).items() if file in files.events)
    peak = None if files.peak is None else f"{_MEMORY}/{name}/peak"
    return GroupMemory(most_bytes=most_bytes, events=events, peak=peak)


def _shown(name: str, files: MemoryFiles) -> dict[str, Path]:
    """Return where the inside finds a group's files, and what they are out here."""
    shown = {f"{_MEMORY}/{name}/events-{number}": file for number, file in enumerate(files.events)}
    return shown if files.peak is None else {**shown, f"{_MEMORY}/{name}/peak": files.peak}


def _chromium_bind() -> list[str]:
    """A Chromium outside /usr is bound at its own place."""
    folder = chromium_path().parent
    return [] if folder.is_relative_to("/usr") else ["--ro-bind", str(folder), str(folder)]


def _inner(spec: Spec, settings: HostSettings) -> list[str]:
    limits = spec.limits
    settings = settings.model_copy(update={"processes": limits.processes})
    return [
        # its own alone: it starts nothing with the environment that it has
        *("/usr/bin/env", f"TMPDIR={HOST_FOLDER}"),
        # set within the user namespace the process limit counts per sandbox, not per outer uid: two of one uid with 200 each
        # got 198 forks each. The kernel host gives cells less than what it has itself
        *("/usr/bin/prlimit", f"--nproc={limits.processes + HOST_PROCESSES}", f"--nofile={limits.open_files}"),
        "--",
        *("/opt/cellwright/bin/python", "-P", "-m", "cellwright_kernel", "--settings", settings.model_dump_json()),
    ]
