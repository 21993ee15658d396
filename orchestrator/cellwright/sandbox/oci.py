"""Sandboxes made from the image by podman or docker: the same code, whichever engine there is.

Flows in: a Spec. Flows out: a running sandbox, its kernel host behind a socket. Decided here: what an engine is asked for (no
network, a root file system that nothing writes to, no capability, sizes for all that can be written, our filter of system calls),
and how a sandbox is reached: podman hands our listening socket down, so that nothing inside can take the kernel host's place.
Where it can't be handed down (docker, and gVisor), the kernel host makes the socket in a folder that is taken from it before
the first cell.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellwright.egress import forwards
from cellwright.sandbox.base import Sandbox, SandboxInfo, Spec
from cellwright.sandbox.born_with import (
    ENVIRONMENT,
    HIDDEN_FILES,
    HIDDEN_FOLDERS,
    HOST_FOLDER,
    HOST_PROCESSES,
    core_limit,
)
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import HostedSandbox, host_settings, place_to_start_in, start_hosted
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.limits import process_bytes
from cellwright.sandbox.oci_engine import Engine, EngineName, find_engine
from cellwright.sandbox.oci_launch import launch_by
from cellwright.sandbox.place import Place
from cellwright.sandbox.runtime import INSIDE, kernel_folder
from cellwright.sandbox.seccomp import browser_filter, browser_profile
from cellwright_kernel.wire import HostSettings, MemoryLimit

_INSIDE_ID: Final = 1000
"""User and group inside; the image knows them as `agent`."""
_CHROMIUM: Final = "/usr/lib/chromium/chromium"
_FILTER: Final = "/run/call-filter"
_EGRESS: Final = "/run/egress"
_GROUP_FILES: Final = {
    "v1": ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes"),
    "v2": ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.peak"),
}
"""Where the kernel host reads how often something was killed for memory, and the most that there was."""
_HIDDEN_OF_SYS: Final = tuple(
    f"/sys/{name}"
    for name in ("block", "bus", "class", "dev", "devices", "firmware", "hypervisor", "kernel", "module", "power")
)
"""All but the control groups."""


class OciBackend:
    """The backends `podman` and `docker`."""

    def __init__(self, engine: EngineName) -> None:
        self.name: str = engine
        self._engine_name: EngineName = engine
        self._engine: Engine | None = None

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """See `Backend.start`."""
        if self._engine is None:
            self._engine = await find_engine(self._engine_name)
        image = await self._engine.image_id(spec.image)
        with place_to_start_in() as place:
            return await _Start(self._engine, image, spec, place, egress_socket).start()


class _OciSandbox(HostedSandbox):
    def __init__(self, start: _Start, launched: Launched, door: Door) -> None:
        super().__init__(start.place, launched, door)
        self._start = start
        self.name = start.engine.name
        self._pid = int(start.pid_file.read_text())

    @property
    def info(self) -> SandboxInfo:
        return SandboxInfo(
            backend=self.name, isolated=True, uid=self._place.uid, pid=self._pid, limits=self._start.limits_in_force()
        )


class _Start:
    """How one sandbox is started."""

    def __init__(self, engine: Engine, image: str, spec: Spec, place: Place, egress_socket: Path | None) -> None:
        self.engine = engine
        self.image = image
        self.spec = spec
        self.place = place
        self.egress_socket = egress_socket
        self.sandbox = f"cellwright-{place.folder.name}"
        self.pid_file = place.folder / "pid"
        self._call_filter = place.folder / "call-filter"
        self._profile = place.folder / "seccomp.json"

    async def start(self) -> Sandbox:
        self._call_filter.write_bytes(browser_filter())
        self._call_filter.chmod(0o644)
        self._profile.write_text(json.dumps(browser_profile()))
        return await start_hosted(
            self.place,
            self._command,
            lambda launched, door: _OciSandbox(self, launched, door),
            start=self._launch,
        )

    async def _launch(self, command: Sequence[str], keep: Sequence[int]) -> Launched:
        return await launch_by(self.engine, self.sandbox, self.place.folder, command, door=keep[-1])

    def limits_in_force(self) -> dict[str, str]:
        limits, by = self.spec.limits, f"by {self.engine.name}, cgroup {self.engine.cgroups}"
        one = f"{process_bytes(limits)} for each process of cells by rlimit"
        memory = f"{limits.memory_bytes} for the whole sandbox {by}; {one}"
        if not self.engine.limits:
            memory = f"{one}; not enforced for the sandbox as a whole: {self.engine.name} is an ordinary user's, and the groups are v1"
        return {
            "processes": f"{limits.processes} by rlimit within the user namespace",
            "open_files": f"{min(limits.open_files, _most_open_files())} a process by rlimit",
            "tmp_bytes": f"{limits.tmp_bytes} each for /tmp, /dev/shm, home and {HOST_FOLDER} by tmpfs size",
            "memory_bytes": memory,
        }

    def _command(self, door: str) -> list[str]:
        del door  # whatever number it has out here, it is the first that is handed down
        environment = {**ENVIRONMENT, "TMPDIR": HOST_FOLDER}
        return [
            *(self.engine.command, "run", *self._options(), self.image),
            *("-i", *(f"{name}={value}" for name, value in environment.items())),
            *("/opt/cellwright/bin/python", "-P", "-m", "cellwright_kernel"),
            *("--settings", self._settings("fd:3").model_dump_json()),
        ]

    def _settings(self, door: str) -> HostSettings:
        limits = self.spec.limits
        events, peak = _GROUP_FILES[self.engine.cgroups] if self.engine.limits else (None, None)
        settings = host_settings(self.spec, door=door, forwards=forwards(self.spec.allow), chromium=_CHROMIUM)
        return settings.model_copy(
            update={
                "own_loopback": True,
                "egress_socket": None if self.egress_socket is None else f"{_EGRESS}/{self.egress_socket.name}",
                "processes": limits.processes,
                "memory": MemoryLimit(
                    process_bytes=process_bytes(limits), sandbox_bytes=limits.memory_bytes, events=events, peak=peak
                ),
                "call_filter": _FILTER,
            }
        )

    def _options(self) -> list[str]:
        return [
            *("--rm", "--interactive", "--name", self.sandbox, "--pull", "never", "--log-driver", "none"),
            *("--entrypoint", "/usr/bin/env", "--no-healthcheck", "--hostname", "sandbox", "--workdir", "/home/agent"),
            *("--network", "none", "--read-only", "--cap-drop", "all", "--cgroupns", "private"),
            *("--security-opt", "no-new-privileges", "--security-opt", f"seccomp={self._profile}"),
            # where there is SELinux, it would keep our sockets from being reached
            *("--security-opt", "label=disable"),
            *("--user", f"{_INSIDE_ID}:{_INSIDE_ID}"),
            *self._limits(),
            *("--volume", f"{self._call_filter}:{_FILTER}:ro,nosuid,nodev,noexec"),
            *(
                ()
                if self.egress_socket is None
                else ("--volume", f"{self.egress_socket.parent}:{_EGRESS}:ro,nosuid,nodev,noexec")
            ),
            *self._of_podman(),
        ]

    def _limits(self) -> list[str]:
        limits, core = self.spec.limits, core_limit()
        size, processes = limits.tmp_bytes, limits.processes + HOST_PROCESSES
        files = min(limits.open_files, _most_open_files())
        groups = (
            *("--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)),
            *("--pids-limit", str(processes)),
        )
        return [
            *(groups if self.engine.limits else ()),
            *("--ulimit", f"nofile={files}:{files}", "--ulimit", f"nproc={processes}:{processes}"),
            *("--ulimit", f"core={core}:{core}", "--shm-size", str(size)),
            *("--tmpfs", f"/tmp:rw,exec,size={size},mode=1777"),  # noqa: S108 - the sandbox's own
            *("--tmpfs", f"/home/agent:rw,exec,size={size},mode=0700,U"),
            *("--tmpfs", f"{HOST_FOLDER}:rw,size={size},mode=0700,U"),
        ]

    def _of_podman(self) -> list[str]:
        hidden = ":".join((*HIDDEN_FILES, *HIDDEN_FOLDERS, *_HIDDEN_OF_SYS, "/dev/mqueue"))
        if self.place.drops:
            # a stretch of ids in one piece: overlay's layers are shown under no other map. Only one of them ever runs
            first, size = self.place.uid - _INSIDE_ID, _INSIDE_ID + 1
            users = ["--uidmap", f"0:{first}:{size}", "--gidmap", f"0:{first}:{size}"]
        else:
            users = ["--userns", f"keep-id:uid={_INSIDE_ID},gid={_INSIDE_ID}"]
        return [
            *("--read-only-tmpfs=false", "--no-hosts", "--security-opt", f"mask={hidden}"),
            *(*users, "--preserve-fds", "1", "--pidfile", str(self.pid_file)),
            # whatever the image was built from, both sides speak the same language
            *("--volume", f"{kernel_folder()}:{INSIDE}/kernel:ro,nosuid,nodev"),
        ]


def _most_open_files() -> int:
    """Return how many open files we may give: without CAP_SYS_RESOURCE no more than we may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return hard if hard != resource.RLIM_INFINITY else 1024**2
