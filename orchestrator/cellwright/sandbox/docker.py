"""Sandboxes made from the image by docker.

Flows in: a Spec. Flows out: a running sandbox. Decided here: docker hands no descriptor down, so the kernel host makes the door's
socket in a folder of ours; before the first cell the socket is moved away and the folder taken, so that nothing inside reaches the
one or puts anything into the other. Its user is a numeric uid that is nobody's out here. That is weaker than podman: there
is no user namespace, unless the daemon makes one, and /proc and /sys show what docker shows of the machine.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from cellwright.errors import SandboxUnavailable
from cellwright.sandbox.base import Sandbox, Spec
from cellwright.sandbox.kernel_host import READY_S, usable_door
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.oci import OciBackend, OciSandbox, OciStart
from cellwright.sandbox.oci_engine import Engine
from cellwright.sandbox.oci_launch import launch_by
from cellwright.sandbox.place import UIDS, Place

_DOOR: Final = "/run/door"
_LOOK_EVERY_S: Final = 0.02


class DockerBackend(OciBackend):
    """The backend `docker`."""

    def __init__(self) -> None:
        super().__init__("docker", _DockerStart)


class _DockerStart(OciStart):
    shown = "ro"  # it takes no more than that

    def __init__(self, engine: Engine, image: str, spec: Spec, place: Place, egress_socket: Path | None) -> None:
        super().__init__(engine, image, spec, place, egress_socket)
        if not place.drops:  # as ourselves, code could take the door's folder back
            self.uid = secrets.choice(UIDS)
        self.tmpfs_owner = f"uid={self.uid},gid={self.uid}"
        self._folder = place.folder / "made-inside"

    async def start(self) -> Sandbox:
        self._folder.mkdir()
        self._give(self._folder)
        async with AsyncExitStack() as undo:
            command = self.command(f"unix:{_DOOR}/door")
            launched = await launch_by(self.engine, self.sandbox, command, door=None)
            undo.push_async_callback(launched.end)
            path = await self._taken_door(launched)
            door = await usable_door(path, launched)
            undo.push_async_callback(door.close)
            _, pid, _ = await self.engine.run("inspect", "--format", "{{.State.Pid}}", self.sandbox)
            undo.pop_all()
            return OciSandbox(self, launched, door, int(pid))

    def own_options(self) -> Sequence[str]:
        known = self._file(
            "passwd", f"root:x:0:0::/root:/usr/sbin/nologin\nagent:x:{self.uid}:{self.uid}::/home/agent:/bin/bash\n"
        )
        hosts = self._file("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n")
        runtime = () if self.engine.runtime is None else ("--runtime", self.engine.runtime)
        return [
            *runtime,
            *("--user", f"{self.uid}:{self.uid}", "--volume", f"{known}:/etc/passwd:{self.shown}"),
            # docker would show the machine's
            *("--volume", f"{hosts}:/etc/hosts:{self.shown}"),
            *("--volume", f"{self._file('resolv.conf', '')}:/etc/resolv.conf:{self.shown}"),
            *("--volume", f"{self._folder}:{_DOOR}", "--tmpfs", "/dev/mqueue:ro,size=4k"),
        ]

    def _file(self, name: str, text: str) -> Path:
        path = self.place.folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def _give(self, folder: Path) -> None:
        if os.getuid() == 0:
            os.chown(folder, self.uid, self.uid)
            folder.chmod(0o700)
        else:  # nobody but us gets to where it lies
            folder.chmod(0o777)

    async def _taken_door(self, launched: Launched) -> Path:
        """Wait for the door's socket, and take its folder; nothing of the model's has run before that.

        Raises:
            SandboxUnavailable: None came.
        """
        path = self._folder / "door"
        ending = asyncio.ensure_future(launched.ended())
        try:
            async with asyncio.timeout(READY_S):
                while not path.exists() and not ending.done():  # noqa: ASYNC110 - a folder tells nobody
                    await asyncio.sleep(_LOOK_EVERY_S)
        except TimeoutError:
            pass
        finally:
            ended = ending.done()
            ending.cancel()
        if os.getuid() == 0:
            os.chown(self._folder, 0, 0)
        self._folder.chmod(0o755)
        if not path.exists() or not stat.S_ISSOCK(path.lstat().st_mode):
            how = await launched.ended() if ended else f"No door was made within {READY_S:.0f} s."
            raise SandboxUnavailable(
                f"The kernel host did not come up. {how} {launched.log_tail()} Usually the image is of another "
                "version, or the daemon cannot see this machine's folders. Nothing is left running. Run "
                "`bash sandbox_image/build.sh --engine docker`."
            )
        return path.rename(self.place.folder / "door")
