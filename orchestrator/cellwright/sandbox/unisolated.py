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
from contextlib import ExitStack
from pathlib import Path

from cellwright.egress import forwards
from cellwright.sandbox.base import Sandbox, SandboxInfo, Spec
from cellwright.sandbox.door import Door
from cellwright.sandbox.kernel_host import HostedSandbox, host_settings, place_to_start_in, start_hosted
from cellwright.sandbox.launch import Launched
from cellwright.sandbox.place import Place
from cellwright.sandbox.runtime import kernel_folder, runtime_folder

WARNING = "WARNING: --sandbox none: the model's code runs on this machine without any isolation."


class UnisolatedBackend:
    """The backend `none`; never a default, never a fallback."""

    name = "none"

    async def start(self, spec: Spec, *, egress_socket: Path | None = None) -> Sandbox:
        """See `Backend.start`."""
        sys.stderr.write(f"\x1b[1;31m{WARNING}\x1b[0m\n")
        with place_to_start_in() as place:
            return await _start(spec, place, egress_socket)


class _UnisolatedSandbox(HostedSandbox):
    name = UnisolatedBackend.name

    def __init__(self, place: Place, launched: Launched, door: Door, home: Path) -> None:
        super().__init__(place, launched, door)
        self._home = home

    @property
    def info(self) -> SandboxInfo:
        limits = dict.fromkeys(("processes", "open_files", "tmp_bytes", "memory_bytes"), "not enforced: no sandbox")
        return SandboxInfo(
            backend=self.name, isolated=False, uid=self._place.uid, pid=self._launched.pid, limits=limits
        )

    async def _end(self) -> None:
        try:
            # without a pid namespace only the kernel host knows what it started; it gets the time to end it
            self._launched.ask_to_end()
            async with asyncio.timeout(10):
                await self._launched.ended()
        except TimeoutError:
            sys.stderr.write("The kernel host did not stop by itself; some of its processes may be left.\n")
        finally:
            await self._launched.end()
            shutil.rmtree(self._home, ignore_errors=True)


async def _start(spec: Spec, place: Place, egress_socket: Path | None) -> Sandbox:
    home = Path(tempfile.mkdtemp(prefix="cellwright-home-"))
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, home, ignore_errors=True)
        os.chown(home, place.uid, place.gid)

        def command_at(door: str) -> list[str]:
            settings = host_settings(spec, door=door, forwards=forwards(spec.allow)).model_copy(
                update={"home": str(home), "egress_socket": None if egress_socket is None else str(egress_socket)}
            )
            environment = {
                "HOME": str(home),
                "PYTHONPATH": str(kernel_folder()),
                "PATH": f"{runtime_folder()}/bin:/usr/local/bin:/usr/bin:/bin",
            }
            return [
                *("/usr/bin/env", "-C", str(home), *(f"{name}={value}" for name, value in environment.items())),
                *(f"{runtime_folder()}/bin/python", "-m", "cellwright_kernel"),
                *("--settings", settings.model_dump_json()),
            ]

        sandbox = await start_hosted(
            place, command_at, lambda launched, door: _UnisolatedSandbox(place, launched, door, home)
        )
        undo.pop_all()
        return sandbox
