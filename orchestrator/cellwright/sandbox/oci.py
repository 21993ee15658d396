"""Sandboxes made from the image by an OCI engine, as far as podman and docker have it alike.

Flows in: a Spec. Flows out: a running sandbox. Decided here: what an engine is asked for: no network, a root file system that
nothing writes to, no capability, sizes for all that can be written, limits, and our filter of system calls twice: as the
engine reads it, and once more to the byte as bubblewrap is given it, by the kernel host. How a sandbox is reached, and
under which ids it runs, is the engine's: `podman.py`, `docker.py`.
"""

from __future__ import annotations

import json
import resource
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellwright.egress import forwards
from cellwright.sandbox.base import Sandbox, SandboxInfo, Spec
from cellwright.sandbox.born_with import (
    BROWSER_FOLDER,
    ENVIRONMENT,
    HOST_FOLDER,
    HOST_PROCESSES,
    core_limit,
    tmp_sizes,
)
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import HostedSandbox, host_settings, place_to_start_in
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.memory_shares import process_bytes
from cellwright.sandbox.oci_engine import Engine, EngineName, find_engine
from cellwright.sandbox.place import Place
from cellwright.sandbox.runtime import INSIDE, kernel_folder
from cellwright.sandbox.seccomp import browser_filter, browser_profile
from cellwright_kernel.wire import GroupMemory, HostSettings, MemoryLimit

_CHROMIUM: Final = "/usr/lib/chromium/chromium"
_FILTER: Final = "/run/call-filter"
_EGRESS: Final = "/run/egress"
_GROUP_FILES: Final = {
    "v1": ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes"),
    "v2": ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.peak"),
}
"""Where the kernel host reads how often something was killed for memory, and the most that there was."""


class OciBackend:
    """A backend whose sandboxes an engine makes."""

    def __init__(self, engine: EngineName, start: type[OciStart]) -> None:
        self.name: str = engine
        self._engine_name: EngineName = engine
        self._engines: dict[str | None, Engine] = {}  # by runtime
        self._start = start

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """See `Backend.start`."""
        engine = self._engines.get(spec.runtime)
        if engine is None:
            engine = self._engines[spec.runtime] = await find_engine(self._engine_name, spec.runtime)
        image = await engine.image_id(spec.image)
        with place_to_start_in() as place:
            return await self._start(engine, image, spec, place, egress_socket).start()


class OciSandbox(HostedSandbox):
    """One sandbox.

    Args:
        start: How it was started.
        launched: The engine's process that runs it.
        door: Of its kernel host.
        pid: Process id out here of its first process.
    """

    def __init__(self, start: OciStart, launched: Launched, door: Door, pid: int) -> None:
        super().__init__(start.place, launched, door)
        self.name = start.engine.name
        self._start = start
        self._pid = pid

    @property
    def info(self) -> SandboxInfo:
        """See `Sandbox.info`."""
        limits = self._start.limits_in_force()
        return SandboxInfo(backend=self.name, isolated=True, uid=self._start.uid, pid=self._pid, limits=limits)


class OciStart(ABC):
    """How one sandbox is started; arguments as their names say, `image` by its id."""

    tmpfs_owner: str
    """Option of a tmpfs that makes it the sandbox's user's."""
    shown: str
    """How what we show of out here is mounted."""

    def __init__(self, engine: Engine, image: str, spec: Spec, place: Place, egress_socket: Path | None) -> None:
        self.engine = engine
        self.image = image
        self.spec = spec
        self.place = place
        self.egress_socket = egress_socket
        self.sandbox = f"cellwright-{place.folder.name}"
        self.uid = place.uid
        self._call_filter = place.folder / "call-filter"
        self._profile = place.folder / "seccomp.json"

    @abstractmethod
    async def start(self) -> Sandbox:
        """Start it and return once it is usable; see `Backend.start`."""

    @abstractmethod
    def own_options(self) -> Sequence[str]:
        """Return what this engine is asked for besides."""

    def shared_memory(self, size: int) -> Sequence[str]:
        """Return the options that give /dev/shm its size in bytes."""
        return ("--shm-size", str(size))

    def limits_in_force(self) -> dict[str, str]:
        """Return each limit with the means by which it holds, or what of it does not, and why."""
        limits, by = self.spec.limits, f"by {self.engine.name}, cgroup {self.engine.cgroups}"
        one = f"{process_bytes(limits)} for each process of cells by rlimit"
        memory = f"{limits.memory_bytes} for the whole sandbox {by}; {one}"
        if not self.engine.limits:
            why = f"{self.engine.name} is an ordinary user's here, and the groups are of version 1"
            memory = f"{one}; not enforced for the sandbox as a whole, nor for its browser: {why}"
        return {
            "processes": f"{limits.processes} by rlimit" + (f", {self._processes} {by}" if self.engine.limits else ""),
            "open_files": f"{self._open_files} a process by rlimit",
            "tmp_bytes": tmp_sizes(limits.tmp_bytes),
            "memory_bytes": memory,
            "cpus": self._cpus_in_force(),
        }

    def _cpus_in_force(self) -> str:
        if not self.engine.limits:
            return f"not enforced, and no fair share either: {self.engine.name} is an ordinary user's here"
        share = f"an even share with every other sandbox by {self.engine.name}, cgroup {self.engine.cgroups}"
        return share if (cpus := self.spec.limits.cpus) is None else f"{cpus:g}; {share}"

    def command(self, door: str) -> list[str]:
        """Return the engine's command that runs it, and write what that reads; `door` as in `HostSettings`."""
        self._call_filter.write_bytes(browser_filter())
        self._call_filter.chmod(0o644)
        self._profile.write_text(json.dumps(browser_profile()))
        environment = {**ENVIRONMENT, "TMPDIR": HOST_FOLDER}
        return [
            *(*self.engine.words, "run", *self._options(), *self.own_options(), self.image),
            *("-i", *(f"{name}={value}" for name, value in environment.items())),
            *("/opt/cellwright/bin/python", "-P", "-m", "cellwright_kernel"),
            *("--settings", self._settings(door).model_dump_json()),
        ]

    def _settings(self, door: str) -> HostSettings:
        limits, egress = self.spec.limits, self.egress_socket
        events, peak = _GROUP_FILES[self.engine.cgroups]
        group = GroupMemory(most_bytes=limits.memory_bytes, events=(events,), peak=peak) if self.engine.limits else None
        settings = host_settings(self.spec, door=door, forwards=forwards(self.spec.allow), chromium=_CHROMIUM)
        return settings.model_copy(
            update={
                "own_loopback": True,
                "browser_folder": BROWSER_FOLDER,
                "egress_socket": None if egress is None else f"{_EGRESS}/{egress.name}",
                "processes": limits.processes,
                "memory": MemoryLimit(
                    process_bytes=process_bytes(limits), sandbox_bytes=limits.memory_bytes, sandbox=group
                ),
                "call_filter": _FILTER,
            }
        )

    def _options(self) -> list[str]:
        egress = (
            () if self.egress_socket is None else ("--volume", f"{self.egress_socket.parent}:{_EGRESS}:{self.shown}")
        )
        return [
            *("--rm", "--interactive", "--name", self.sandbox, "--pull", "never", "--log-driver", "none"),
            *("--entrypoint", "/usr/bin/env", "--no-healthcheck", "--hostname", "sandbox", "--workdir", "/home/agent"),
            *("--network", "none", "--read-only", "--cap-drop", "all", "--cgroupns", "private"),
            *("--security-opt", "no-new-privileges", "--security-opt", f"seccomp={self._profile}"),
            # where there is SELinux, it would keep our sockets from being reached
            *("--security-opt", "label=disable"),
            *self._limits(),
            *("--volume", f"{self._call_filter}:{_FILTER}:{self.shown}", *egress),
            # whatever the image was built from, both sides speak the same language
            *("--volume", f"{kernel_folder()}:{INSIDE}/kernel:{self.shown}"),
        ]

    def _limits(self) -> list[str]:
        size, owner, core = self.spec.limits.tmp_bytes, self.tmpfs_owner, core_limit()
        memory, most = str(self.spec.limits.memory_bytes), self._processes
        groups = ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(most)]
        if self.spec.limits.cpus is not None:
            groups += ["--cpus", f"{self.spec.limits.cpus:g}"]
        return [
            *(groups if self.engine.limits else ()),
            *("--ulimit", f"nofile={self._open_files}:{self._open_files}", "--ulimit", f"nproc={most}:{most}"),
            *("--ulimit", f"core={core}:{core}", *self.shared_memory(size)),
            *("--tmpfs", f"/tmp:rw,exec,size={size},mode=1777"),  # noqa: S108 - the sandbox's own
            *("--tmpfs", f"/home/agent:rw,exec,size={size},mode=0700,{owner}"),
            *("--tmpfs", f"{HOST_FOLDER}:rw,size={size},mode=0700,{owner}"),
            *("--tmpfs", f"{BROWSER_FOLDER}:rw,size={size},mode=0700,{owner}"),
        ]

    @property
    def _processes(self) -> int:
        """Processes and threads in all; the kernel host gives cells less than that."""
        return self.spec.limits.processes + HOST_PROCESSES

    @property
    def _open_files(self) -> int:
        """Most open files of a process: without CAP_SYS_RESOURCE no more can be given than we may have."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = self.spec.limits.open_files
        return limit if hard == resource.RLIM_INFINITY else min(limit, hard)
