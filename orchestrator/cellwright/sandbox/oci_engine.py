"""The engine that makes sandboxes from the image, podman or docker: how it is found and called.

Flows in: an engine's name. Flows out: an `Engine` that says what can be had of it, and runs its commands. Decided here: which of
our environment an engine gets (where its storage or its daemon is, and nothing else), and what is said when it does not answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cellwright.errors import SandboxUnavailable

EngineName = Literal["podman", "docker"]

BUILD: Final = "bash sandbox_image/build.sh"
"""What makes the image; shown where it is missing."""
_ANSWER_S: Final = 30.0
"""Seconds that a command of the engine may take; 0.1 are usual, and an engine that was just installed makes its storage first."""
_BUS: Final = "DBUS_SESSION_BUS_ADDRESS"
_NEEDED: Final = ("HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST", "DOCKER_CONTEXT", _BUS)


@dataclass(frozen=True)
class Engine:
    """An engine that answers."""

    name: EngineName
    command: str
    """Its program's path."""
    rootless: bool
    """Whether whoever runs its sandboxes is an ordinary user."""
    cgroups: Literal["v1", "v2"]

    @property
    def limits(self) -> bool:
        """Whether it can hold a sandbox to memory and processes: an ordinary user's can't with groups of version 1."""
        return not (self.rootless and self.cgroups == "v1")

    async def image_id(self, image: str) -> str:
        """Return an image's id.

        Raises:
            SandboxUnavailable: There is no such image.
        """
        status, said, _ = await self.run("image", "inspect", "--format", "{{.Id}}", image)
        if status != 0:
            raise SandboxUnavailable(
                f"{self.name} has no image {image}. Usually it was not built yet. Nothing was started. Run `{BUILD}`."
            )
        return said.strip()

    async def remove(self, sandbox: str) -> None:
        """End a sandbox of this name, if there is one, and remove what the engine keeps of it."""
        await self.run(*self.removal(sandbox)[1:])

    def removal(self, sandbox: str) -> list[str]:
        """Return the command that does that."""
        at_once = ["--time", "0", "--ignore"] if self.name == "podman" else []
        return [self.command, "rm", "--force", *at_once, sandbox]

    async def run(self, *words: str) -> tuple[int, str, str]:
        """Run a command of the engine; return its status and what it said on both streams."""
        return await _run(self.command, *words)


async def find_engine(name: EngineName) -> Engine:
    """Return an engine that answers; takes 0.1 s.

    Raises:
        SandboxUnavailable: It is not there, or does not answer.
    """
    command = shutil.which(name)
    if command is None:
        install = "bash scripts/setup.sh --podman" if name == "podman" else "apt-get install docker.io"
        raise SandboxUnavailable(
            f"There is no {name} on this machine. Nothing was started, isolated or not. Run `{install}`, or leave "
            "`--sandbox` out: bubblewrap needs no image."
        )
    status, said, complaint = await _run(command, "info", "--format", "{{json .}}")
    try:
        told = json.loads(said)
    except ValueError:
        told = {}
    if status != 0 or not isinstance(told, dict) or not told:
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        raise SandboxUnavailable(
            f"{name} does not answer: {last}. Usually its daemon does not run, or you may not use it. Nothing was started. "
            f"Run `{name} info` to see why."
        )
    return _as_told(name, command, told)


def engine_environment() -> dict[str, str]:
    """Return the environment that an engine is run with."""
    kept = {name: os.environ[name] for name in _NEEDED if name in os.environ}
    if _BUS not in kept and not Path(kept.get("XDG_RUNTIME_DIR", "/nowhere"), "bus").exists():
        kept[_BUS] = "disabled:"  # or podman would start a bus, which outlives it
    # runc and its helpers lie in sbin
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **kept}


def _as_told(name: EngineName, command: str, told: dict[str, Any]) -> Engine:
    if name == "podman":
        host = told.get("host", {})
        rootless, version = bool(host.get("security", {}).get("rootless")), str(host.get("cgroupVersion"))
    else:
        rootless = "name=rootless" in (told.get("SecurityOptions") or [])
        version = f"v{told.get('CgroupVersion')}"
    return Engine(name, command, rootless, "v2" if version == "v2" else "v1")


async def _run(command: str, *words: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        command, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=engine_environment(), cwd="/"
    )
    try:
        async with asyncio.timeout(_ANSWER_S):
            said, complaint = await process.communicate()
    except TimeoutError:
        return -1, "", f"no answer within {_ANSWER_S:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, said.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")
