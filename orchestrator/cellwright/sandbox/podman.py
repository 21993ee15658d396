"""Sandboxes made from the image by podman, as root or as an ordinary user.

Flows in: a Spec. Flows out: a running sandbox. Decided here: podman hands our listening socket down to the kernel host, so that
nothing inside can take its place, as with bubblewrap; as root each sandbox has a user namespace whose one user is a
numeric uid of its own out here; what /proc and /sys tell of the machine is hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cellwright.sandbox.base import Sandbox
from cellwright.sandbox.born_with import HIDDEN_FILES, HIDDEN_FOLDERS
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import start_hosted
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.oci import OciBackend, OciSandbox, OciStart
from cellwright.sandbox.oci_launch import launch_by

_INSIDE_ID: Final = 1000
"""User and group inside; the image knows them as `agent`."""
_HIDDEN: Final = (
    *HIDDEN_FILES,
    *HIDDEN_FOLDERS,
    "/dev/mqueue",
    # all of /sys but the control groups, in which the kernel host reads how often something was killed for memory
    *(f"/sys/{name}" for name in ("block", "bus", "class", "dev", "devices", "firmware", "hypervisor", "kernel")),
    *("/sys/module", "/sys/power"),
)


class PodmanBackend(OciBackend):
    """The backend `podman`."""

    def __init__(self) -> None:
        super().__init__("podman", _PodmanStart)


class _PodmanStart(OciStart):
    tmpfs_owner = "U"
    shown = "ro,nosuid,nodev,noexec"

    async def start(self) -> Sandbox:
        return await start_hosted(self.place, self._handed_down, self._made, start=self._launch)

    def own_options(self) -> Sequence[str]:
        if self.place.drops:
            # a stretch of ids in one piece: overlay's layers are shown under no other map. Only one of them ever runs
            first, size = self.place.uid - _INSIDE_ID, _INSIDE_ID + 1
            users = ["--uidmap", f"0:{first}:{size}", "--gidmap", f"0:{first}:{size}"]
        else:
            users = ["--userns", f"keep-id:uid={_INSIDE_ID},gid={_INSIDE_ID}"]
        # without a group of its own, those of the whole machine would be shown
        hidden = _HIDDEN if self.engine.limits else (*_HIDDEN, "/sys/fs/cgroup")
        return [
            *("--user", f"{_INSIDE_ID}:{_INSIDE_ID}", *users),
            *("--read-only-tmpfs=false", "--no-hosts", "--security-opt", f"mask={':'.join(hidden)}"),
            *("--preserve-fds", "1", "--pidfile", str(self._pid_file)),
        ]

    def shared_memory(self, size: int) -> Sequence[str]:
        # podman 5's own is read-only where the root file system is
        return ("--tmpfs", f"/dev/shm:rw,noexec,size={size},mode=1777")  # noqa: S108 - the sandbox's own

    @property
    def _pid_file(self) -> Path:
        return self.place.folder / "pid"

    def _handed_down(self, _: str) -> list[str]:
        # whatever number the door has out here, it is the first that is handed down
        return self.command("fd:3")

    async def _launch(self, command: Sequence[str], keep: Sequence[int]) -> Launched:
        return await launch_by(self.engine, self.sandbox, command, door=keep[-1])

    def _made(self, launched: Launched, door: Door) -> OciSandbox:
        return OciSandbox(self, launched, door, int(self._pid_file.read_text()))
