"""No sandbox at all: the kernel host as a plain process of this machine. For development only.

Flows in: a Spec. Flows out: the same `Sandbox` as from any backend, and a warning in red on stderr.
Decided here: as root it still drops to an unprivileged uid; everything else of the machine is open to the code.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from cellwright.egress import forwards
from cellwright.sandbox.base import Sandbox, SandboxInfo, Spec
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import host_settings, listen, wait_ready
from cellwright.sandbox.launch import Launched, launch
from cellwright.sandbox.place import Place, take_place
from cellwright.sandbox.runtime import kernel_folder, runtime_folder

WARNING = "WARNING: --sandbox none: the model's code runs on this machine without any isolation."


class UnisolatedBackend:
    """The backend `none`; never a default, never a fallback."""

    name = "none"

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """See `Backend.start`."""
        sys.stderr.write(f"\x1b[1;31m{WARNING}\x1b[0m\n")
        place = take_place()
        try:
            return await _start(spec, place, egress_socket)
        except BaseException:
            place.leave()
            raise


class _UnisolatedSandbox:
    def __init__(self, place: Place, launched: Launched, door: Door, home: Path) -> None:
        self._place = place
        self._launched = launched
        self._door = door
        self._home = home
        self._closed = False

    def __repr__(self) -> str:
        return f"<Sandbox none: {'closed' if self._closed else 'ready'}, pid {self._launched.pid}>"

    @property
    def info(self) -> SandboxInfo:
        limits = dict.fromkeys(("processes", "open_files", "tmp_bytes", "memory_bytes"), "not enforced: no sandbox")
        return SandboxInfo(backend="none", isolated=False, uid=self._place.uid, pid=self._launched.pid, limits=limits)

    @property
    def door(self) -> Door:
        return self._door

    async def ended(self) -> str:
        return await self._launched.ended()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            await self._door.close()
            # without a pid namespace only the kernel host knows what it started; it gets the time to end it
            self._launched.ask_to_end()
            async with asyncio.timeout(10):
                await self._launched.ended()
        except TimeoutError:
            sys.stderr.write("The kernel host did not stop by itself; some of its processes may be left.\n")
        finally:
            await self._launched.end()
            shutil.rmtree(self._home, ignore_errors=True)
            self._place.leave()


async def _start(spec: Spec, place: Place, egress_socket: Path | None) -> Sandbox:
    home = Path(tempfile.mkdtemp(prefix="cellwright-home-"))
    async with AsyncExitStack() as undo:
        undo.callback(shutil.rmtree, home, ignore_errors=True)
        os.chown(home, place.uid, place.gid)
        door_path = place.folder / "door"
        listener = listen(door_path)
        undo.callback(listener.close)
        settings = host_settings(spec, door=f"fd:{listener.fileno()}", forwards=forwards(spec.allow)).model_copy(
            update={"home": str(home), "egress_socket": None if egress_socket is None else str(egress_socket)}
        )
        environment = {
            "HOME": str(home),
            "PYTHONPATH": str(kernel_folder()),
            "PATH": f"{runtime_folder()}/bin:/usr/local/bin:/usr/bin:/bin",
        }
        launched = await launch(
            [
                *("/usr/bin/env", "-C", str(home), *(f"{name}={value}" for name, value in environment.items())),
                *(f"{runtime_folder()}/bin/python", "-m", "cellwright_kernel"),
                *("--settings", settings.model_dump_json()),
            ],
            uid=place.uid if place.drops else None,
            keep=(listener.fileno(),),
        )
        undo.push_async_callback(launched.end)
        door = Door.at(door_path)
        undo.push_async_callback(door.close)
        sandbox = _UnisolatedSandbox(place, launched, door, home)
        listener.close()
        await wait_ready(sandbox, launched)
        undo.pop_all()
        return sandbox
